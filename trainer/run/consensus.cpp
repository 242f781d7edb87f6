#include <cmath>
#include <csignal>
#include "trainer/run/loop_parts.h"

namespace bellows {

// Elements of the votes; all are summed.
enum Vote { kInterrupted, kTerminated, kSave, kFailure, kHasLoss, kLoss, kVotes };

static std::vector<double> to_vector(const Tensor& t) {
  return {t.ptr<double>(), t.ptr<double>() + t.numel()};
}

void Consensus::contribute(const double* loss) {
  std::vector<double> mine(kVotes);
  mine[kInterrupted] = signals_.stop() == SIGINT;
  mine[kTerminated] = signals_.stop() == SIGTERM;
  mine[kSave] = signals_.take_save_request();
  mine[kFailure] = failure_ ? double(failure_->exit) : 0;
  mine[kHasLoss] = loss != nullptr;
  if (loss) mine[kLoss] = *loss;
  votes_ = tensor_of(mine, {kVotes});
  work_ = group_.all_reduce(votes_, Reduction::sum, "votes");
}

void Consensus::end_update(const double* loss) {
  if (alone()) {
    if (loss) losses_.push_back(*loss);
    return;
  }
  settle();
  contribute(loss);
}

void Consensus::settle() {
  if (!work_.wait) return;
  std::exchange(work_, {}).wait();
  const std::span<const double> votes(votes_.ptr<double>(), kVotes);
  if (votes[kTerminated] > 0) stop_ = SIGTERM;
  if (votes[kInterrupted] > 0 && !stop_) stop_ = SIGINT;
  save_ |= votes[kSave] > 0;
  if (votes[kHasLoss] > 0) losses_.push_back(votes[kLoss] / group_.world());
  if (votes[kFailure] == 0) return;
  const auto exit = static_cast<Exit>(std::lround(votes[kFailure]));  // only rank 0 writes files
  throw AgreedError(failure_ ? failure_->what() : "ended with rank 0, whose message says why",
                    exit);
}

void Consensus::settle_now() {
  settle();
  if (alone()) return;
  contribute(nullptr);
  settle();
}

void Consensus::announce(const Error& error) {
  if (alone()) throw error;
  if (!failure_) failure_ = error;
}

int Consensus::stop() const { return alone() ? signals_.stop() : stop_; }

bool Consensus::take_save_request() {
  return alone() ? signals_.take_save_request() : std::exchange(save_, false);
}

std::vector<double> Consensus::means(const std::vector<double>& mine) {
  const Tensor all = tensor_of(mine, {std::ssize(mine)});
  if (!mine.empty()) group_.all_reduce(all, Reduction::mean, "losses").wait();
  return to_vector(all);
}

std::vector<double> Consensus::gather(const std::vector<double>& mine) {
  const Tensor all({group_.world() * std::ssize(mine)}, DType::f64);
  group_.all_gather(tensor_of(mine, {std::ssize(mine)}), all, "costs").wait();
  return to_vector(all);
}

}  // namespace bellows
