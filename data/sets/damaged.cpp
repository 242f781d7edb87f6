#include "data/sets/damaged.h"
#include <algorithm>
#include <map>
#include "core/base/output.h"
#include "core/base/trace.h"
#include "core/base/words.h"
#include "core/device/parallel.h"
#include "data/images/file.h"
#include "data/images/image_file.h"

namespace bellows {

namespace {

class Undamaged : public Dataset {
 public:
  // damaged[i] is not 0 if sample i is to be left out.
  Undamaged(const DatasetPtr& all, std::span<const float> damaged)
      : Dataset(all->info()), all_(all) {
    const std::vector<std::string> names = class_names(info_);
    std::map<std::string, int64_t> left_out;  // samples by class, if known
    for (int64_t i = 0; i < all_->size(); ++i) {
      if (damaged[i] == 0)
        kept_.push_back(i);
      else if (const int64_t label = all_->label(i); label >= 0)
        ++left_out[names[label]];
    }
    damaged_ = all_->size() - std::ssize(kept_);
    damaged_text_ = cat(count_of(damaged_, "damaged sample"), " left out (",
                        left_out.empty() ? "any class" : counted(left_out), ")");
  }
  int64_t size() const override { return std::ssize(kept_); }
  Sample at_least(int64_t index, const ViewOf& wanted, Scratch& scratch) const override {
    return all_->at_least(kept_[index], wanted, scratch);
  }
  std::optional<EncodedSample> encoded(int64_t index) const override {
    return all_->encoded(kept_[index]);
  }
  std::string origin(int64_t index) const override { return all_->origin(kept_[index]); }
  int64_t label(int64_t index) const override { return all_->label(kept_[index]); }
  bool fixed_pixels() const override { return all_->fixed_pixels(); }
  std::vector<std::string> notes() const override {
    std::vector<std::string> notes = all_->notes();
    notes.push_back("warning: data: " + damaged_text_);
    return notes;
  }

 private:
  DatasetPtr all_;
  std::vector<int64_t> kept_;  // indices in all_
};

// Marks the damaged samples of a rank.
void find_damaged(const Dataset& dataset, const AcrossRanks& ranks, std::span<float> damaged) {
  std::vector<std::string> reasons(dataset.size());
  const auto try_one = [&](int64_t index, Scratch& scratch) {
    try {
      if (const auto sample = dataset.encoded(index))
        check_image(sample->file, scratch);
      else
        dataset.at(index, scratch);
    } catch (const Error& error) {
      if (error.exit != Exit::data) throw;
      reasons[index] = error.what();
    }
  };
  parallel_for(dataset.size(), 16, [&](int64_t begin, int64_t end) {
    Scratch scratch;
    for (int64_t i = begin; i < end; ++i)
      if (i % ranks.world == ranks.rank) at_sample(dataset, i, {}, [&] { try_one(i, scratch); });
  });
  for (int64_t i = 0; i < dataset.size(); ++i) {
    if (reasons[i].empty()) continue;
    damaged[i] = 1;
    trace::count<"data.damaged_samples">();
    warn(cat(dataset.origin(i), ": skipped: ", reasons[i]));
  }
}

}  // namespace

DatasetPtr without_damaged(const DatasetPtr& dataset, OnDamaged on_damaged,
                           const AcrossRanks& ranks) {
  if (on_damaged == OnDamaged::error || dataset->arrays() || dataset->size() == 0) return dataset;
  const Tensor marks({dataset->size()}, DType::f32);
  const std::span<float> damaged(marks.ptr<float>(), dataset->size());
  std::ranges::fill(damaged, 0.f);
  find_damaged(*dataset, ranks, damaged);
  if (ranks.sum) ranks.sum(marks);
  const int64_t kept = std::ranges::count(damaged, 0.f);
  if (kept == 0)
    fail(Exit::data, dataset->origin(0), ": damaged, like all samples of the data set");
  if (kept == dataset->size()) return dataset;
  return std::make_shared<Undamaged>(dataset, damaged);
}

std::string name_of_sample(const Dataset& dataset, int64_t index) {
  return cat("sample ", index, " (", dataset.origin(index), ")");
}

void rethrow_at_sample(const Dataset& dataset, int64_t index, std::optional<OnDamaged> on_damaged) {
  const std::string name = name_of_sample(dataset, index);
  try {
    throw;
  } catch (const Error& error) {
    const char* const advice = !on_damaged || error.exit != Exit::data ? ""
                               : *on_damaged == OnDamaged::error
                                   ? "; data.on_damaged=skip leaves it out"
                                   : "; it could be read when the data set was opened";
    fail(error.exit == Exit::usage ? Exit::data : error.exit, name, ": ", error.what(), advice);
  } catch (const std::bad_alloc&) {
    fail(Exit::memory, name, ": out of host memory");
  } catch (const std::exception& error) {
    fail(Exit::data, name, ": ", error.what());
  }
}

}  // namespace bellows
