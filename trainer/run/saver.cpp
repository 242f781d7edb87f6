#include "trainer/run/loop_parts.h"
#include "trainer/session/session.h"

namespace bellows {

// Runs work on checkpoints, on the rank that writes them. Its errors end all ranks.
template <class Work> void Saver::guarded(const Work& work) {
  if (!checkpoints_) return;
  try {
    work();
  } catch (const Error& error) {
    consensus_.announce(error);
  }
}

// As guarded(), for work that may take longer than dist.timeout_s: the other ranks wait for it.
template <class Work> void Saver::on_rank0(const Work& work) {
  guarded(work);
  session_.wait_for_rank0(cat("step ", at_.step, ", checkpoint ", ++writes_));
}

template <class Work> void Saver::write(const Work& work) {
  meter_.lap(Phase::other);
  on_rank0(work);
  if (!plan_.ckpt.async) consensus_.settle_now();
  meter_.lap(Phase::save);
}

bool Saver::poll() {
  guarded([&] { checkpoints_->poll(); });
  log_messages();
  const int64_t every = plan_.ckpt.every_iters;
  return (every && at_.step % every == 0) || consensus_.take_save_request();
}

void Saver::save() {
  note_times();
  const std::array now = {at_.step, at_.epoch, at_.evaluated};
  if (std::exchange(saved_, now) == now) return;
  write([&] {
    checkpoints_->save(at_.step, state_tensors(session_), state_metadata(session_, at_));
  });
  log_messages();
}

void Saver::save_best() {
  const SyncGuard expected(OnSync::ignore);
  note_times();
  write([&] { checkpoints_->save_best(state_tensors(session_), state_metadata(session_, at_)); });
}

void Saver::wait() {
  on_rank0([&] { checkpoints_->wait(); });
  consensus_.settle_now();
  log_messages();
}

void Saver::check_folder() {
  if (plan_.ckpt.on_error == OnSaveError::stop) guarded([&] { checkpoints_->check_folder(); });
}

void Saver::log_messages() {
  if (!checkpoints_) return;
  for (const std::string& message : checkpoints_->take_messages()) log_.line(message);
}

void Saver::note_times() {
  at_.elapsed_s = from_.elapsed_s + meter_.total_seconds();
  at_.load_s = from_.load_s + meter_.seconds(Phase::load);
  at_.step_s = from_.step_s + meter_.seconds(Phase::step);
  at_.eval_s = from_.eval_s + meter_.seconds(Phase::eval);
  at_.save_s = from_.save_s + meter_.seconds(Phase::save);
}

}  // namespace bellows
