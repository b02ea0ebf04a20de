// Puts filters that come whole under their keys, one after the other, on a thread of its own. The same thread
// runs the errands of filters that leave the server (dumps and exports):
//
//     make the filter --> write it aside, synced --> close the gate: look again, put, record --> answer
//
// A crash before the record leaves what was there before, and a file that no record names. A crash after the
// record leaves the filter under its key (storage/adopted_files.hpp).
#pragma once

#include <sepal/base/gate.hpp>
#include <sepal/base/mutex.hpp>
#include <sepal/command/run/adoptions.hpp>
#include <sepal/command/run/services.hpp>
#include <sepal/keyspace/keyspace.hpp>
#include <sepal/keyspace/mutation_log.hpp>
#include <sepal/storage/generation/adopted_files.hpp>

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>

#include "app/threads/journal_view.hpp"

namespace sepal::app {

// The comments of the members name the threads that may call them.
class Adopter final : public command::Adoptions {
 public:
  // All parts outlive stop().
  struct Parts {
    Gate& gate;
    keyspace::Keyspace& keyspace;
    keyspace::WorkerLog& log;
    storage::AdoptedFiles& files;
    const JournalView& journal;
    // Whether the disk has room for a file of this many bytes. Empty: a save is going to make room.
    std::function<std::optional<Result<void>>(std::uint64_t byte_count)> room;
    std::function<void(std::uint64_t client_id, std::function<void(resp::Reply&)> append)> answer;
  };

  Adopter() = default;
  ~Adopter() override;  // after stop()
  Adopter(const Adopter&) = delete;
  Adopter& operator=(const Adopter&) = delete;

  // Called once, with the gate closed, before a client asks for an adoption.
  void begin(Parts parts);
  // Called by the thread that constructed this. When it returns, the job under way is done or given up.
  void stop();
  // Any thread. Tells that the journal is durable up to a further position, or has room.
  void journal_progressed();

  void adopt(command::ClientState& client, command::Adoption adoption) override;
  void run(command::ClientState& client, command::Errand errand) override;
  [[nodiscard]] command::AdoptionStatus status() const override;

 private:
  struct Job {
    std::string_view what;
    std::uint64_t client_id = 0;
    std::shared_ptr<const std::atomic<bool>> client_gone;
    // Does the whole job.
    std::function<command::Answer(const Job& job)> perform;
  };

  void enqueue(command::ClientState& client, std::string_view what,
               std::function<command::Answer(const Job& job)> perform);
  void serve();
  [[nodiscard]] command::JobContext context_of(const Job& job);
  Result<void> hold(std::uint64_t byte_count);
  void release_all();
  void show_nothing();
  Result<void> make_and_adopt(const Job& job, const command::Adoption& adoption);
  Result<void> put_under_key(const Job& job, const command::Adoption& adoption, const value::ValuePtr& value);
  Result<void> put_successor(const Job& job, const command::Adoption& adoption, const value::ValuePtr& value);
  Result<void> await_room(const Job& job, std::uint64_t byte_count);
  // Errors: not_recorded; io where the job was given up.
  Result<keyspace::ImageFile> write_aside(const Job& job, const value::ValuePtr& value);
  // Empty: the file was written.
  void tell_refusal(const std::string& reason);
  std::optional<Result<void>> put_now(keyspace::Mutator& mutator, const command::Adoption& adoption,
                                      const value::ValuePtr& value, const keyspace::ImageFile& file);
  // Called with the gate closed. Empty: there is no room in the journal yet, or the value has changed.
  std::optional<Result<void>> try_adopt(const command::Adoption& adoption, const value::ValuePtr& value,
                                        const keyspace::ImageFile& file);
  [[nodiscard]] bool given_up(const Job& job) const { return stopping_ || *job.client_gone; }
  void wait_until_durable();
  bool next(Job& job);

  std::optional<Parts> parts_;
  std::uint64_t held_bytes_ = 0;  // for the job under way; confined to thread_
  std::atomic<bool> stopping_{false};
  // Progress of that job. Gauges, relaxed: nothing is ordered by them.
  std::atomic<std::uint64_t> bytes_done_{0};
  std::atomic<std::uint64_t> bytes_total_{0};

  // Lock order: after the gate; nothing is locked inside.
  mutable Mutex mutex_ SEPAL_ACQUIRED_AFTER(parts_->gate);
  Condition changed_;
  std::deque<Job> waiting_ SEPAL_GUARDED_BY(mutex_);
  std::string_view what_ SEPAL_GUARDED_BY(mutex_);  // the kind of the job under way
  std::string refusal_ SEPAL_GUARDED_BY(mutex_);    // why the last file could not be written; empty: it was

  std::thread thread_;
};

}  // namespace sepal::app
