// Shared code of the stress laws: many threads use one keyspace. Each is a worker with a session and a side
// of the gate, and exchanges bytes like a connection.
//
// The timing of the threads cannot be repeated, but their requests can: a failure prints the variables for
// that. SEPAL_STRESS_SECONDS makes each law run longer, SEPAL_STRESS_THREADS sets the number of threads.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <initializer_list>
#include <memory>
#include <mutex>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "support/catch.hpp"
#include "unit/session/session_world.hpp"

namespace sepal::session::test {

struct StressOptions {
  std::size_t thread_count = 4;
  std::chrono::milliseconds duration{2000};
  std::uint64_t seed = 0;

  static StressOptions from_environment() {
    StressOptions options;
    options.thread_count = number_of("SEPAL_STRESS_THREADS", options.thread_count);
    options.seed = number_of("SEPAL_STRESS_SEED", std::random_device()());
    const std::uint64_t seconds = number_of("SEPAL_STRESS_SECONDS", 0);
    if (seconds != 0) options.duration = std::chrono::seconds(seconds);
    return options;
  }

  [[nodiscard]] std::string rerun() const {
    return "rerun: SEPAL_STRESS_SEED=" + std::to_string(seed) +
           " SEPAL_STRESS_THREADS=" + std::to_string(thread_count) + " property_session \"[stress]\"";
  }

 private:
  static std::uint64_t number_of(const char* name, std::uint64_t otherwise) {
    const char* const text = std::getenv(name);
    return text != nullptr ? std::strtoull(text, nullptr, 10) : otherwise;
  }
};

// The first reason, from any thread, why a run failed. Catch2's own checks work in one thread only.
// Synchronised.
class Complaint {
 public:
  void make(const std::string& text) {
    const std::lock_guard guard(mutex_);
    if (made_.exchange(true)) return;
    text_ = text;
  }
  [[nodiscard]] bool made() const { return made_; }
  [[nodiscard]] std::string text() {
    const std::lock_guard guard(mutex_);
    return text_;
  }

 private:
  std::atomic<bool> made_{false};
  std::mutex mutex_;
  std::string text_;
};

// Requests, encoded. Confined.
class Pipeline {
 public:
  Pipeline& begin(std::size_t word_count) {
    bytes_ += '*';
    bytes_ += std::to_string(word_count);
    bytes_ += "\r\n";
    ++request_count_;
    return *this;
  }
  Pipeline& word(std::string_view text) {
    bytes_ += '$';
    bytes_ += std::to_string(text.size());
    bytes_ += "\r\n";
    bytes_ += text;
    bytes_ += "\r\n";
    return *this;
  }
  Pipeline& ask(std::initializer_list<std::string_view> words) {
    begin(words.size());
    for (const std::string_view text : words) word(text);
    return *this;
  }
  // The words, then the items.
  Pipeline& ask(std::initializer_list<std::string_view> words, std::span<const std::string> items) {
    begin(words.size() + items.size());
    for (const std::string_view text : words) word(text);
    for (const std::string& item : items) word(item);
    return *this;
  }

  [[nodiscard]] const std::string& bytes() const { return bytes_; }
  [[nodiscard]] std::size_t request_count() const { return request_count_; }
  void clear() {
    bytes_.clear();
    request_count_ = 0;
  }

 private:
  std::string bytes_;
  std::size_t request_count_ = 0;
};

// Reads replies that are lines or arrays of lines. After the end it returns empty lines. Confined.
class ReplyLines {
 public:
  explicit ReplyLines(std::string_view bytes) : rest_(bytes) {}

  std::string_view line() {
    const std::size_t end = std::min(rest_.find("\r\n"), rest_.size());
    const std::string_view found = rest_.substr(0, end);
    rest_.remove_prefix(std::min(end + 2, rest_.size()));
    return found;
  }
  // The lines of an array. If the reply is no array, its single line.
  const std::vector<std::string_view>& lines() {
    lines_.clear();
    const std::string_view first = line();
    if (!first.starts_with('*')) {
      lines_.push_back(first);
      return lines_;
    }
    const std::size_t count = std::strtoull(first.data() + 1, nullptr, 10);
    for (std::size_t i = 0; i < count && !rest_.empty(); ++i) lines_.push_back(line());
    return lines_;
  }
  [[nodiscard]] bool at_end() const { return rest_.empty(); }

 private:
  std::string_view rest_;
  std::vector<std::string_view> lines_;
};

// Confined to a thread.
struct StressWorker : WorkerSession {
  StressWorker(Ground& ground, command::Services& services, std::size_t worker_index, std::uint64_t seed)
      : WorkerSession(ground, services, worker_index), index(worker_index), random(seed + worker_index) {}

  std::size_t below(std::size_t end) { return random() % end; }
  bool one_in(std::size_t count) { return below(count) == 0; }

  std::size_t index;
  std::mt19937_64 random;
};

// The keyspace, a worker for each thread, and one more worker for the overseer.
struct StressWorld {
  explicit StressWorld(const StressOptions& stress_options)
      : options(stress_options), ground(options.thread_count + 1), services(ground.services(clients)) {
    for (std::size_t i = 0; i <= options.thread_count; ++i)
      workers.push_back(std::make_unique<StressWorker>(ground, services, i, options.seed));
  }

  StressWorker& overseer() { return *workers.back(); }

  // Calls work(worker) for each worker except the overseer, each on its own thread.
  template <class Work>
  [[nodiscard]] std::vector<std::thread> start(const Work& work) {
    std::vector<std::thread> threads;
    for (std::size_t i = 0; i < options.thread_count; ++i)
      threads.emplace_back([this, i, &work] { work(*workers[i]); });
    return threads;
  }

  StressOptions options;
  Ground ground;
  command::ClientDirectory clients;
  command::Services services;
  std::vector<std::unique_ptr<StressWorker>> workers;
  Complaint complaint;
};

// The answers of one filter to its clients, from its creation on. Synchronised.
class Ledger {
 public:
  explicit Ledger(std::size_t item_count) : told_(item_count), told_new_(item_count) {}

  // Notes the answer to an add.
  void add_answered(std::size_t item, bool was_new) {
    if (was_new) {
      told_new_[item].fetch_add(1);
      new_count_.fetch_add(1);
    }
    told_[item].store(true);
  }
  // Whether an add of the item was answered. A look-up that is sent from now on must then find the item.
  [[nodiscard]] bool must_be_found(std::size_t item) const { return told_[item].load(); }
  [[nodiscard]] std::uint32_t new_count_of(std::size_t item) const { return told_new_[item].load(); }
  [[nodiscard]] std::uint64_t new_count() const { return new_count_.load(); }
  [[nodiscard]] std::size_t item_count() const { return told_.size(); }

  // Returns what is wrong with the filter's count, or an empty text. No worker may add meanwhile. `exact`:
  // the error rate is so small that there are no false positives.
  [[nodiscard]] std::string fault(std::string_view counted, bool exact) const {
    for (std::size_t item = 0; item < told_.size(); ++item) {
      const std::uint32_t count = new_count_of(item);
      if (count > 1 || (exact && count == 0 && must_be_found(item)))
        return "item " + std::to_string(item) + " was new " + std::to_string(count) + " times";
    }
    const std::string expected = ":" + std::to_string(new_count());
    if (counted != expected) return "BF.CARD is " + std::string(counted) + ", not " + expected;
    return {};
  }

 private:
  std::vector<std::atomic<bool>> told_;
  std::vector<std::atomic<std::uint32_t>> told_new_;
  std::atomic<std::uint64_t> new_count_{0};
};

inline std::vector<std::string> stress_items(std::size_t item_count) {
  std::vector<std::string> items;
  for (std::size_t i = 0; i < item_count; ++i) items.push_back("item:" + std::to_string(i));
  return items;
}

}  // namespace sepal::session::test
