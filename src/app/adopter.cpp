#include "adopter.hpp"

#include <sepal/filter/image.hpp>
#include <sepal/keyspace/mutator.hpp>

#include <chrono>
#include <utility>

namespace sepal::app {
namespace {

using keyspace::Admission;

// The journal has no room, and soon will; it tells, unless it failed meanwhile.
constexpr std::chrono::milliseconds journal_pause{100};

Error abandoned() {
  return fail(Errc::io, "given up before the end, as asked");
}

}  // namespace

Adopter::~Adopter() {
  stop();
}

void Adopter::begin(Parts parts) {
  parts_.emplace(std::move(parts));
  thread_ = std::thread([this] { run(); });
}

void Adopter::stop() {
  stopping_ = true;
  {
    const MutexLock lock(mutex_);
    waiting_.clear();
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void Adopter::journal_progressed() {
  // Whoever looked before waits by now.
  { const MutexLock lock(mutex_); }
  changed_.notify_all();
}

void Adopter::adopt(command::ClientState& client, command::Adoption adoption) {
  {
    const MutexLock lock(mutex_);
    waiting_.push_back(
        {.client_id = client.id, .client_gone = client.lifeline.tie(), .adoption = std::move(adoption)});
  }
  changed_.notify_all();
}

bool Adopter::next(Job& job) {
  const MutexLock lock(mutex_);
  while (!stopping_ && waiting_.empty()) changed_.wait(mutex_);
  if (stopping_) return false;
  job = std::move(waiting_.front());
  waiting_.pop_front();
  return true;
}

void Adopter::run() {
  for (Job job; next(job); job = {}) {
    const Result<void> outcome = given_up(job) ? Result<void>(abandoned()) : perform(job);
    if (outcome) wait_until_durable();
    parts_->answer(job.client_id, [answer = std::move(job.adoption.answer), outcome](resp::Reply& reply) {
      answer(reply, outcome);
    });
  }
}

Result<void> Adopter::perform(const Job& job) {
  const auto limits = hold(job);
  if (!limits) return limits.error();
  auto filter =
      job.adoption.make({.limits = *limits, .go_on = [&](std::uint64_t) { return !given_up(job); }});
  const Result<void> settled = filter ? settle_in(job, std::move(*filter)) : filter.error();
  const GateClosed closed(parts_->gate);
  parts_->keyspace.release(std::exchange(held_bytes_, 0));
  return settled;
}

// What the filter may take, of which its size counts as used from here on.
Result<filter::FilterLimits> Adopter::hold(const Job& job) {
  const GateClosed closed(parts_->gate);
  const filter::FilterLimits limits = parts_->keyspace.filter_limits();
  if (auto held = parts_->keyspace.hold(job.adoption.byte_count); !held) return held.error();
  held_bytes_ = job.adoption.byte_count;
  return limits;
}

// The journal may be switched on while the filter is not written aside yet, so it may take a second look.
Result<void> Adopter::settle_in(const Job& job, keyspace::FilterPtr filter) {
  const bool in_record = filter::whole_image_bytes(*filter) <= keyspace::recorded_image_bytes_max;
  keyspace::ImageFile file;
  std::optional<Result<void>> outcome;
  while (!outcome && !given_up(job)) {
    if (!in_record && file.number == 0 && parts_->log.recording()) {
      const auto written = write_aside(job, filter);
      if (!written) return written.error();
      file = *written;
    }
    {
      const GateClosed closed(parts_->gate);
      if (!in_record && file.number == 0 && parts_->log.recording()) continue;
      outcome = try_adopt(job, filter, file);
    }
    if (outcome) continue;
    const MutexLock lock(mutex_);
    changed_.wait_for(mutex_, journal_pause);
  }
  if (!outcome) outcome = abandoned();
  if (file.number != 0 && (!*outcome || !parts_->files.is_named(file.number)))
    parts_->files.drop(file.number);
  return *outcome;
}

Result<keyspace::ImageFile> Adopter::write_aside(const Job& job, const keyspace::FilterPtr& filter) {
  return parts_->files.write(filter, [&](const storage::Progress&) { return !given_up(job); });
}

std::optional<Result<void>> Adopter::try_adopt(const Job& job, const keyspace::FilterPtr& filter,
                                               const keyspace::ImageFile& file) {
  const command::Adoption& adoption = job.adoption;
  const keyspace::DatabaseKey key{.database = adoption.database, .key = adoption.key};
  keyspace::WorkerLog* const log = parts_->log.recording() ? &parts_->log : nullptr;
  if (log != nullptr) {
    const std::uint64_t bytes = keyspace::record_bytes_of_adoption(key.key.size());
    const Admission admission = log->admit(bytes);
    if (admission == Admission::later) return std::nullopt;
    if (admission == Admission::refused) return fail(Errc::not_recorded, parts_->journal.status().refusal);
  }
  keyspace::Mutator mutator(parts_->keyspace, log);
  mutator.expire(key, std::chrono::system_clock::now());
  Result<void> adopted = fail(Errc::key_exists);
  if (adoption.replace || parts_->keyspace.find(key) == nullptr) {
    parts_->keyspace.release(std::exchange(held_bytes_, 0));
    adopted = mutator.adopt(key, filter, adoption.deadline, file);
  }
  if (log == nullptr) return adopted;
  log->commit();
  // Before any generation may be cut.
  if (adopted && file.number != 0)
    parts_->files.named({.number = file.number, .position = parts_->journal.position()});
  return adopted;
}

// Under `always`. What the journal does not make durable, a generation does.
void Adopter::wait_until_durable() {
  const std::uint64_t position = parts_->log.settle(false);
  const MutexLock lock(mutex_);
  while (!stopping_ && position > parts_->journal.durable_position())
    changed_.wait_for(mutex_, journal_pause);
}

}  // namespace sepal::app
