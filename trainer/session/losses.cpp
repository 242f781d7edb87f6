#include "trainer/session/losses.h"
#include <algorithm>
#include "core/base/trace.h"
#include "core/tensor/copy.h"
#include "core/tensor/foreach.h"

namespace bellows {

// The window is read early if fewer than kUpdate slots are left: one update may need that many
// (gradient_accumulation: 4096).
static constexpr int64_t kSlots = 16384, kUpdate = 4096;

Losses::Losses(bool deferred, Device device)
    : deferred_(deferred), slots_(Shape{kSlots}, DType::f32, device) {}

void Losses::add(const Tensors& losses, const Update& update) {
  auto batch = update.begin();
  for (const Tensor& loss : losses) {
    copy_into(slots_.view(loss.shape(), strides_of(loss.shape()), std::ssize(parts_)), loss);
    parts_.push_back({(batch++)->share});
  }
}

void Losses::end_update() {
  parts_.back().last = true;
  if (!deferred_ || std::ssize(parts_) > kSlots - kUpdate) read();
}

void Losses::read() {
  if (parts_.empty()) return;
  const int64_t updates = std::ranges::count(parts_, true, &Part::last);
  // With one update, nothing was deferred.
  updates > 1 ? trace::count<"log.deferred_reads">() : trace::count<"log.host_reads">();
  const Shape filled{std::ssize(parts_)};
  const Tensor host = to(Device::cpu, slots_.view(filled, strides_of(filled), 0));
  for (size_t i = 0; i < parts_.size(); ++i) {
    sum_ += parts_[i].share * host.data<float>()[i];
    if (parts_[i].last) known_.push_back(std::exchange(sum_, 0));
  }
  parts_.clear();
}

LossTerms::LossTerms(const LossOptions& loss, Device device) {
  if (loss.loss.name() != "sum") return;
  for (const LossTerm& term : terms_of(loss)) names_.push_back(term.name);
  for (size_t i = 0; i <= names_.size(); ++i) sums_.push_back(zeros({}, DType::f32, device));
}

void LossTerms::add(const NamedTensors& terms, const Batch& batch) {
  if (terms.empty()) return;
  for (size_t i = 0; i < terms.size(); ++i) add_into(sums_[i], terms[i].tensor, batch.share);
  add_into(sums_.back(), full({}, 1, sums_.back()), batch.fraction);
}

std::vector<double> LossTerms::take() {
  std::vector<double> taken;
  for (const Tensor& sum : sums_) taken.push_back(sum.item()), fill(sum, 0);
  return taken;
}

}  // namespace bellows
