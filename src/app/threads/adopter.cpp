#include "app/threads/adopter.hpp"

#include <sepal/base/assert.hpp>
#include <sepal/base/memory_reserve.hpp>
#include <sepal/base/thread.hpp>
#include <sepal/command/table/error_texts.hpp>
#include <sepal/keyspace/mutator.hpp>
#include <sepal/log/event.hpp>
#include <sepal/value/image.hpp>

#include <algorithm>
#include <chrono>
#include <iterator>
#include <utility>
#include <vector>

namespace sepal::app {
namespace {

using keyspace::Admission;

// How long the adopter waits for room in the journal before it looks again. The journal tells it earlier,
// unless it has failed meanwhile.
constexpr std::chrono::milliseconds journal_pause{100};

// The same where there may also be more to take over.
constexpr std::chrono::milliseconds succession_pause{1};

Error abandoned() {
  return fail(Errc::io, "given up before the end, as asked");
}

}  // namespace

Adopter::~Adopter() {
  stop();
}

void Adopter::begin(Parts parts) {
  SEPAL_ASSERT(!parts_ && !thread_.joinable(), "the adopter begins once");
  SEPAL_ASSERT(parts.room && parts.answer, "the adopter cannot ask for room, or answer a client");
  parts_.emplace(std::move(parts));
  thread_ = start_thread("adopter", [this] { serve(); });
}

void Adopter::stop() {
  stopping_ = true;
  {
    const MutexLock lock(mutex_);
    // The daemon stops the server first, so no client waits for these jobs.
    waiting_.clear();
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void Adopter::journal_progressed() {
  // Taking the lock once makes sure that an adopter that has just looked waits by now, and so gets the
  // signal.
  { const MutexLock lock(mutex_); }
  changed_.notify_all();
}

void Adopter::adopt(command::ClientState& client, command::Adoption adoption) {
  SEPAL_ASSERT(adoption.make && adoption.answer, "an adoption without a filter, or without an answer");
  const std::string_view what = adoption.what;
  // The job shares the adoption with its answer, which runs later, on the client's worker.
  enqueue(
      client, what, [this, held = std::make_shared<command::Adoption>(std::move(adoption))](const Job& job) {
        const Result<void> outcome = make_and_adopt(job, *held);
        // What these hold may be large. The answer runs on a worker.
        held->make = {};
        held->succession = {};
        if (outcome) wait_until_durable();
        // The filter is under its key. What lacks memory now is what the client is told.
        if (outcome && held->adopted && !memory_reserve::suffices_for(held->adopted))
          return command::Answer([](resp::Reply& reply) { reply.error(command::text::no_memory_for_reply); });
        return command::Answer([held, outcome](resp::Reply& reply) { held->answer(reply, outcome); });
      });
}

void Adopter::run(command::ClientState& client, command::Errand errand) {
  SEPAL_ASSERT(errand.run, "an errand without anything to do");
  enqueue(client, errand.what,
          [this, run = std::move(errand.run)](const Job& job) { return run(context_of(job)); });
}

void Adopter::enqueue(command::ClientState& client, std::string_view what,
                      std::function<command::Answer(const Job& job)> perform) {
  SEPAL_ASSERT(parts_.has_value(), "a client asks for a filter before the adopter begins");
  // What jobs hold for clients that have gone is in no account, so it goes before more is held. It is freed
  // without the lock.
  std::vector<Job> dropped;
  {
    const MutexLock lock(mutex_);
    const auto gone = std::stable_partition(waiting_.begin(), waiting_.end(),
                                            [](const Job& job) { return !job.client_gone->load(); });
    dropped.assign(std::make_move_iterator(gone), std::make_move_iterator(waiting_.end()));
    waiting_.erase(gone, waiting_.end());
    waiting_.push_back({.what = what,
                        .client_id = client.id,
                        // The flag outlives the client. A job whose client has gone is given up.
                        .client_gone = client.lifeline.tie(),
                        .perform = std::move(perform)});
  }
  changed_.notify_all();
}

command::AdoptionStatus Adopter::status() const {
  const MutexLock lock(mutex_);
  return {.waiting = waiting_.size(),
          .what = what_,
          .bytes_done = bytes_done_.load(std::memory_order_relaxed),
          .bytes_total = bytes_total_.load(std::memory_order_relaxed),
          .refusal = refusal_};
}

bool Adopter::next(Job& job) {
  const MutexLock lock(mutex_);
  while (!stopping_ && waiting_.empty()) changed_.wait(mutex_);
  if (stopping_) return false;
  SEPAL_ASSERT(what_.empty(), "a job begins before the one before it has ended");
  job = std::move(waiting_.front());
  waiting_.pop_front();
  what_ = job.what;
  return true;
}

void Adopter::serve() {
  for (Job job; next(job); job = {}) {
    command::Answer answer;
    // What lacks memory is the copy of a string or a filter, which is under no key yet.
    if (!given_up(job) && !memory_reserve::suffices_for([&] { answer = job.perform(job); }))
      answer = [](resp::Reply& reply) { reply.error(command::text::no_memory); };
    // A job that put its filter under a key holds nothing any more. This is for all other ends of a job.
    release_all();
    // Cleared before the client gets its answer, because the client may look then.
    show_nothing();
    if (answer) parts_->answer(job.client_id, std::move(answer));
  }
}

void Adopter::show_nothing() {
  const MutexLock lock(mutex_);
  what_ = {};
  bytes_done_.store(0, std::memory_order_relaxed);
  bytes_total_.store(0, std::memory_order_relaxed);
}

command::JobContext Adopter::context_of(const Job& job) {
  const GateClosed closed(parts_->gate);
  return {.limits = parts_->keyspace.value_limits(),
          .hold = [this](std::uint64_t byte_count) { return hold(byte_count); },
          .go_on =
              [this, &job](std::uint64_t bytes_done) {
                bytes_done_.store(bytes_done, std::memory_order_relaxed);
                return !given_up(job);
              },
          .alone =
              [this](const std::function<void(keyspace::Keyspace&)>& work) {
                const GateClosed alone(parts_->gate);
                work(parts_->keyspace);
              }};
}

Result<void> Adopter::hold(std::uint64_t byte_count) {
  const GateClosed closed(parts_->gate);
  // The memory counts as used before the filter is made, so requests cannot take it meanwhile.
  if (auto held = parts_->keyspace.hold(byte_count); !held) return held;
  held_bytes_ += byte_count;
  bytes_total_.store(held_bytes_, std::memory_order_relaxed);
  return {};
}

void Adopter::release_all() {
  const GateClosed closed(parts_->gate);
  parts_->keyspace.release(std::exchange(held_bytes_, 0));
}

Result<void> Adopter::make_and_adopt(const Job& job, const command::Adoption& adoption) {
  const command::JobContext context = context_of(job);
  // Also where memory for a step was refused, by an exception.
  struct End {
    const command::JobContext& context;
    const command::Adoption& adoption;
    ~End() {
      if (adoption.succession.ended) context.alone(adoption.succession.ended);
    }
  };
  const End end{.context = context, .adoption = adoption};
  const auto made = adoption.make(context);
  return made ? put_under_key(job, adoption, *made) : made.error();
}

// The journal may be switched on before the filter is written aside. So the loop looks again, with the gate
// closed, whether a file is needed.
Result<void> Adopter::put_under_key(const Job& job, const command::Adoption& adoption,
                                    const value::ValuePtr& value) {
  SEPAL_ASSERT(value != nullptr, "there is no value to adopt");
  if (adoption.succession.put) return put_successor(job, adoption, value);
  const bool in_record = value::image_bytes(*value) <= keyspace::recorded_image_bytes_max;
  keyspace::ImageFile file;
  std::optional<Result<void>> outcome;
  while (!outcome && !given_up(job)) {
    if (!in_record && file.number == 0 && parts_->log.recording()) {
      if (auto room = await_room(job, value::row_of(*value).byte_count(*value)); !room) return room;
      const auto written = write_aside(job, value);
      if (!written) return written.error();
      file = *written;
    }
    {
      const GateClosed closed(parts_->gate);
      // The journal was switched on since the check above: the file has to be written first.
      if (!in_record && file.number == 0 && parts_->log.recording()) continue;
      outcome = try_adopt(adoption, value, file);
    }
    if (outcome) continue;
    // The journal has no room for the record yet.
    const MutexLock lock(mutex_);
    changed_.wait_for(mutex_, journal_pause);
  }
  if (!outcome) outcome = abandoned();
  // No record names the file if the adoption failed, or if the journal was switched off meanwhile.
  if (file.number != 0 && (!*outcome || !parts_->files.is_named(file.number)))
    parts_->files.drop(file.number);
  return *outcome;
}

// The record names what the value is made of, so it needs no file.
Result<void> Adopter::put_successor(const Job& job, const command::Adoption& adoption,
                                    const value::ValuePtr& value) {
  while (!given_up(job)) {
    if (auto done = adoption.succession.catch_up(value); !done) return done;
    std::optional<Result<void>> outcome;
    {
      const GateClosed closed(parts_->gate);
      outcome = try_adopt(adoption, value, {});
    }
    if (outcome) return *outcome;
    // The journal has no room for the record yet, or there is more to take over.
    const MutexLock lock(mutex_);
    changed_.wait_for(mutex_, succession_pause);
  }
  return abandoned();
}

// Runs on the adopter's thread, so it may wait for a save, which removes what the journal names.
Result<void> Adopter::await_room(const Job& job, std::uint64_t byte_count) {
  while (!given_up(job)) {
    if (const auto room = parts_->room(byte_count)) return *room;
    const MutexLock lock(mutex_);
    changed_.wait_for(mutex_, journal_pause);
  }
  return abandoned();
}

// The file is a part of what the journal records. So a client is told that it cannot be written as it is told
// that the journal cannot: it may try again, and nothing is wrong with its command.
Result<keyspace::ImageFile> Adopter::write_aside(const Job& job, const value::ValuePtr& value) {
  auto written = parts_->files.write(value, [&](const storage::Progress&) { return !given_up(job); });
  if (!written && given_up(job)) return written;
  const std::string reason = written ? std::string() : written.error().detail;
  tell_refusal(reason);
  return written ? written : fail(Errc::not_recorded, reason);
}

void Adopter::tell_refusal(const std::string& reason) {
  {
    const MutexLock lock(mutex_);
    // The log has only what is new: clients may try again and again.
    if (reason == refusal_) return;
    refusal_ = reason;
  }
  if (reason.empty()) {
    log::info("adoptions_accepted", "values that come whole are accepted again");
  } else {
    log::error("adoptions_refused", "values that come whole are refused", {{"reason", reason}});
  }
}

// With the gate closed. What was held counts as used until then.
std::optional<Result<void>> Adopter::put_now(keyspace::Mutator& mutator, const command::Adoption& adoption,
                                             const value::ValuePtr& value, const keyspace::ImageFile& file) {
  const keyspace::DatabaseKey key{.database = adoption.database, .key = adoption.key};
  if (adoption.still_wanted && !adoption.still_wanted()) return fail(Errc::no_such_key);
  const std::uint64_t held_bytes = held_bytes_;
  if (adoption.succession.put) {
    parts_->keyspace.release(std::exchange(held_bytes_, 0));
    auto put = adoption.succession.put(mutator, value);
    if (!put) held_bytes_ = parts_->keyspace.hold(held_bytes) ? held_bytes : 0;
    return put;
  }
  if (auto may = command::may_adopt(parts_->keyspace, key, adoption.replace); !may) return may;
  parts_->keyspace.release(std::exchange(held_bytes_, 0));
  return mutator.adopt(key, value, adoption.deadline, file);
}

std::optional<Result<void>> Adopter::try_adopt(const command::Adoption& adoption,
                                               const value::ValuePtr& value,
                                               const keyspace::ImageFile& file) {
  const keyspace::DatabaseKey key{.database = adoption.database, .key = adoption.key};
  // The gate was open while the filter was made, so everything is asked again. The journal is asked before
  // anything changes: with `later`, the whole step is done once more.
  keyspace::WorkerLog* const log = parts_->log.recording() ? &parts_->log : nullptr;
  if (log != nullptr) {
    const std::uint64_t bytes = adoption.succession.put ? keyspace::record_bytes_of_remaking(key.key.size())
                                                        : keyspace::record_bytes_of_adoption(key.key.size());
    const Admission admission = log->admit(bytes);
    if (admission == Admission::later) return std::nullopt;
    if (admission == Admission::never)
      return fail(Errc::not_recorded, "the journal has no room for a filter");
    if (admission == Admission::refused) return fail(Errc::not_recorded, parts_->journal.status().refusal);
  }
  keyspace::Mutator mutator(parts_->keyspace, log);
  SEPAL_ASSERT(adoption.database < keyspace::database_count, "a filter is adopted into no database");
  mutator.expire(key, std::chrono::system_clock::now());
  std::optional<Result<void>> adopted = put_now(mutator, adoption, value, file);
  if (log == nullptr) return adopted;
  // Also after a failure: the key may have expired above, and that is recorded.
  log->commit();
  if (!adopted) return adopted;
  // Noted before the gate opens, so that no generation can be cut between the record and the note.
  if (*adopted && file.number != 0)
    parts_->files.named({.number = file.number,
                         .position = parts_->journal.position(),
                         .byte_count = value::row_of(*value).byte_count(*value)});
  return adopted;
}

// Waits under `always`. Either a sync of the journal or a generation makes the record durable.
void Adopter::wait_until_durable() {
  const std::uint64_t position = parts_->log.seal_record(false);
  const MutexLock lock(mutex_);
  while (!stopping_ && position > parts_->journal.durable_position())
    changed_.wait_for(mutex_, journal_pause);
}

}  // namespace sepal::app
