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
    const int64_t most = loader_.options().sampler.batch_size, n = loader_.sampler().count(at_++);
    const Shape sample = loader_.transforms().shape();
    batch = buffers_.free(with_rows(n, sample));
    const Sent images(group_, batch.x.dtype(), batch.x.device(), with_rows(most, sample)),
        labels(group_, DType::i64, batch.y.device(), {most});
    for (int64_t rank = 0; Feed* const feed : feeds_) {
      Batch its;
      INVARIANT(feed->next(its), "the batches of rank ", rank, " end before those of rank 0");
      copy_into(images.rows(rank, its.size()), its.x);
      copy_into(labels.rows(rank++, its.size()), its.y);
    }
    const Sampler& sampler = loader_.sampler();
    batch.counts = {n, sampler.joint_size(at_ - 1), sampler.fewest(at_ - 1),
                    sampler.weight(at_ - 1)};
    copy_into(batch.x, images.receive(n, "images"));
    copy_into(batch.y, labels.receive(n, "labels"));
    return true;
  }

 private:
  // Parts of equal size, one for each rank. Ranks with fewer rows ignore the rest of theirs.
  struct Sent {
    Sent(ProcessGroup& group, DType dtype, Device device, const Shape& shape)
        : group(group), shape(shape), mine({shape.numel()}, dtype, device) {
      if (group.rank() == 0) all = zeros({group.world() * shape.numel()}, dtype, device);
    }
    Tensor rows(int64_t rank, int64_t n) const { return first(all, rank * shape.numel(), n); }
    Tensor receive(int64_t n, const char* what) const {
      group.scatter(all, mine, 0, what);
      count_root_bytes(group, mine.nbytes());
      return first(mine, 0, n);
    }
    Tensor first(const Tensor& from, int64_t begin, int64_t n) const {
      Shape rows = shape;
      rows[0] = n;
      return from.view(rows, strides_of(rows), begin);
    }
    ProcessGroup& group;
    const Shape shape;
    const Tensor mine;
    Tensor all = {};
  };

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
