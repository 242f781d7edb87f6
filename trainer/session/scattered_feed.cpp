#include "trainer/session/scattered_feed.h"
#include "core/tensor/copy.h"
#include "dist/reducer.h"

namespace bellows {

namespace {

class ScatteredFeed : public Feed {
 public:
  ScatteredFeed(ProcessGroup& group, const Loader& loader, std::vector<Feed*> feeds,
                BatchBuffers buffers)
      : group_(group), loader_(loader), feeds_(std::move(feeds)), buffers_(std::move(buffers)) {}

  void start(int64_t epoch, int64_t first_batch) override {
    at_ = first_batch;
    for (Feed* const feed : feeds_) feed->start(epoch, first_batch);
  }
  void catch_up() override {
    for (Feed* const feed : feeds_) feed->catch_up();
  }

  bool next(Batch& batch) override {
    batch = {};
    if (at_ == loader_.batches()) return false;
    const Sampler& sampler = loader_.sampler();
    const int64_t n = sampler.count(at_);
    batch = buffers_.free(with_rows(n, loader_.transforms().shape()));
    batch.counts = {n, sampler.joint_size(at_), sampler.fewest(at_), sampler.weight(at_)};
    ++at_;
    std::vector<Batch> parts(feeds_.size());  // the parts, by rank
    for (size_t rank = 0; rank < parts.size(); ++rank)
      INVARIANT(feeds_[rank]->next(parts[rank]), "the batches of rank ", rank,
                " end before those of rank 0");
    send(batch.x, parts, &Batch::x, "images");
    send(batch.y, parts, &Batch::y, "labels");
    return true;
  }

 private:
  // Sends each rank one tensor of its part. All parts have the same number of rows; ranks with
  // fewer samples ignore the rest.
  void send(const Tensor& to, const std::vector<Batch>& parts, Tensor Batch::*tensor,
            const char* what) {
    Shape most = to.shape();
    most[0] = loader_.options().sampler.batch_size;
    const Tensor mine({most.numel()}, to.dtype(), to.device());
    Tensor all;
    if (!parts.empty()) all = zeros({group_.world() * mine.numel()}, to.dtype(), to.device());
    for (size_t rank = 0; rank < parts.size(); ++rank) {
      const Tensor& its = parts[rank].*tensor;
      copy_into(all.view(its.shape(), strides_of(its.shape()), int64_t(rank) * mine.numel()), its);
    }
    group_.scatter(all, mine, 0, what);
    count_root_bytes(group_, mine.nbytes());
    copy_into(to, mine.view(to.shape(), strides_of(to.shape()), 0));
  }

  ProcessGroup& group_;
  const Loader& loader_;
  const std::vector<Feed*> feeds_;
  BatchBuffers buffers_;
  int64_t at_ = 0;  // index of the next batch
};

}  // namespace

std::unique_ptr<Feed> scattered_feed(ProcessGroup& group, const Loader& loader,
                                     std::vector<Feed*> feeds, BatchBuffers buffers) {
  return std::make_unique<ScatteredFeed>(group, loader, std::move(feeds), std::move(buffers));
}

}  // namespace bellows
