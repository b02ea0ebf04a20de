// Measures whether filters that delete keep their error rate, how many bits they take, and whether they ever
// deny an item that they have.
//
//     deletions [--quick] [--threads N] [--operations N]
//
// For each rate and capacity it prints a row for each of these states:
//
//     full      as many items as it was reserved for
//     churned   then ten times as many were added, each after the oldest one was removed
//     grown     made without a capacity, as CF.ADD makes it; filled to a thousand times 1,024 items
//
// At the end, threads add, remove and look up random items of one filter, each its own, and know for each how
// often it is there. The exit status is 1 if a rate exceeds rate_ratio_max times the requested one, or if an
// item was denied, or a stored copy could not be removed.
#include <sepal/cuckoo/native/filter.hpp>
#include <sepal/cuckoo/native/plan.hpp>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <random>
#include <span>
#include <string_view>
#include <thread>
#include <vector>

namespace {

using namespace sepal;
using namespace sepal::cuckoo;

constexpr double rate_ratio_max = 1.1;
constexpr std::size_t batch_items = 64;
constexpr std::uint64_t bytes_max = std::uint64_t{1} << 40;
constexpr std::uint64_t churn_rounds = 10;
constexpr std::uint64_t growth = 1000;

[[noreturn]] void give_up(const char* reason) {
  std::fprintf(stderr, "deletions: %s\n", reason);
  std::exit(2);
}

// What a thread's changes retire ends when the threads have ended.
class KeptMemory final : public Memory {
 public:
  KeptMemory() = default;
  KeptMemory(const KeptMemory&) = delete;
  KeptMemory& operator=(const KeptMemory&) = delete;
  ~KeptMemory() {
    for (const Retired& retired : retired_) retired.end(retired.object);
  }
  [[nodiscard]] bool may_take(std::uint64_t /*bytes*/) override { return true; }
  void took(std::int64_t /*bytes*/) override {}
  void retire(void* object, void (*end)(void*)) override { retired_.push_back({object, end}); }

 private:
  struct Retired {
    void* object;
    void (*end)(void*);
  };
  std::vector<Retired> retired_;
};

// Items of sixteen bytes, all different: their purpose, and a number.
class Items {
 public:
  void add(std::uint64_t purpose, std::uint64_t number) {
    numbers_[count_] = {purpose, number};
    views_[count_] = {reinterpret_cast<const char*>(&numbers_[count_]), sizeof numbers_[count_]};
    ++count_;
  }
  std::span<const std::string_view> batch(std::uint64_t purpose, std::uint64_t first, std::size_t count) {
    count_ = 0;
    for (std::size_t at = 0; at < count; ++at) add(purpose, first + at);
    return all();
  }
  [[nodiscard]] std::span<const std::string_view> all() const { return std::span(views_).first(count_); }
  [[nodiscard]] std::size_t size() const { return count_; }
  void clear() { count_ = 0; }

 private:
  struct Number {
    std::uint64_t purpose, number;
  };
  Number numbers_[batch_items] = {};
  std::string_view views_[batch_items];
  std::size_t count_ = 0;
};

constexpr std::uint64_t to_add = 1, to_ask = 2, of_thread = 3;

// A filter with the numbers of the items that it has: [first, last).
struct Filled {
  FilterPtr filter;
  OwnMemory memory;
  Items items;
  std::vector<Filter::AddOutcome> outcomes;
  std::uint64_t first = 0;
  std::uint64_t last = 0;

  void add(std::uint64_t count) {
    for (const std::uint64_t end = last + count; last != end;) {
      const auto some = std::min<std::uint64_t>(batch_items, end - last);
      filter->add(items.batch(to_add, last, some), Filter::AddIf::always, memory, outcomes, nullptr);
      if (!std::ranges::all_of(outcomes, &Filter::AddOutcome::added))
        give_up("a filter refused an item that it had room for");
      last += some;
    }
  }
  void churn(std::uint64_t count) {
    bool removed[batch_items];
    for (std::uint64_t done = 0; done < count;) {
      const auto some = std::min<std::uint64_t>(batch_items, count - done);
      filter->remove(items.batch(to_add, first, some), memory, std::span(removed).first(some), nullptr);
      if (!std::all_of(removed, removed + some, [](bool each) { return each; }))
        give_up("a filter denied an item that it had");
      first += some;
      add(some);
      done += some;
    }
  }
  [[nodiscard]] std::uint64_t count(std::uint64_t purpose, std::uint64_t from, std::uint64_t to) {
    bool present[batch_items];
    std::uint64_t found = 0;
    for (; from < to; from += batch_items) {
      const auto some = std::min<std::uint64_t>(batch_items, to - from);
      filter->contains(items.batch(purpose, from, some), std::span(present).first(some));
      found += static_cast<std::uint64_t>(std::count(present, present + some, true));
    }
    return found;
  }
};

struct Report {
  std::uint64_t absent;  // items that were never added, and are looked up
  bool broken = false;

  void row(Filled& filled, const char* state) {
    const Options& options = filled.filter->plan().options;
    const std::uint64_t items = filled.last - filled.first;
    const bool has_all = filled.count(to_add, filled.first, filled.last) == items;
    const double rate = static_cast<double>(filled.count(to_ask, 0, absent)) / static_cast<double>(absent);
    const bool kept = has_all && rate <= rate_ratio_max * options.error_rate;
    broken = broken || !kept;
    std::printf("%-6g %9llu %-8s %-8s %9llu  %.3e  %.3f  %6.2f  %s\n", options.error_rate,
                static_cast<unsigned long long>(options.capacity), options.scaling() ? "scaling" : "fixed",
                state, static_cast<unsigned long long>(items), rate, rate / options.error_rate,
                static_cast<double>(filled.filter->byte_count()) * 8 / static_cast<double>(items),
                kept      ? "ok"
                : has_all ? "ABOVE"
                          : "DENIED");
    std::fflush(stdout);
  }
};

FilterPtr made(const Options& options) {
  const auto planned = plan(options, bytes_max);
  if (!planned) give_up(planned.error().detail.c_str());
  auto filter = Filter::create(*planned);
  if (!filter) give_up("there is no memory");
  return *std::move(filter);
}

void measure(Report& report, double rate, std::uint64_t capacity, std::uint32_t expansion) {
  Filled filled;
  filled.filter = made({.capacity = capacity, .error_rate = rate, .expansion = expansion});
  filled.add(capacity);
  report.row(filled, "full");
  filled.churn(churn_rounds * capacity);
  report.row(filled, "churned");
}

void measure_growth(Report& report, double rate, std::uint64_t times) {
  Filled filled;
  const Options options{.error_rate = rate, .capacity_given = false};
  filled.filter = made(options);
  filled.add(options.capacity * times);
  report.row(filled, "grown");
}

// One thread's part of the random operations.
class Player {
 public:
  Player(Filter& filter, std::uint64_t thread, std::uint64_t item_count)
      : filter_(filter), thread_(thread), random_(thread), copies_(item_count) {}

  void play(std::uint64_t operations) {
    for (std::uint64_t done = 0; done < operations; done += batch_items) {
      items_.clear();
      numbers_.clear();
      switch (random_() % 3) {
        case 0: add(); break;
        case 1: remove(); break;
        default: look_up();
      }
    }
  }
  [[nodiscard]] std::uint64_t denied() const { return denied_; }

 private:
  void take(std::uint64_t number) {
    numbers_.push_back(number);
    items_.add(of_thread + thread_, number);
  }
  void add() {
    while (items_.size() < batch_items) {
      const std::uint64_t number = random_() % copies_.size();
      take(number);
    }
    filter_.add(items_.all(), Filter::AddIf::always, memory_, outcomes_, nullptr);
    for (std::size_t at = 0; at < numbers_.size(); ++at) {
      if (!outcomes_[at].added) give_up("a filter refused an item");
      ++copies_[numbers_[at]];
    }
  }
  // Only what is there, and of every item at most one copy.
  void choose_stored() {
    for (std::size_t tries = 0; tries < 4 * batch_items && items_.size() < batch_items; ++tries) {
      const std::uint64_t number = random_() % copies_.size();
      if (copies_[number] != 0 && std::ranges::find(numbers_, number) == numbers_.end()) take(number);
    }
  }
  void remove() {
    choose_stored();
    const auto answers = std::span(answers_).first(items_.size());
    filter_.remove(items_.all(), memory_, answers, nullptr);
    for (std::size_t at = 0; at < numbers_.size(); ++at) {
      denied_ += answers[at] ? 0 : 1;
      --copies_[numbers_[at]];
    }
  }
  void look_up() {
    choose_stored();
    const auto answers = std::span(answers_).first(items_.size());
    filter_.contains(items_.all(), answers);
    denied_ += static_cast<std::uint64_t>(std::ranges::count(answers, false));
  }

  Filter& filter_;
  std::uint64_t thread_;
  std::mt19937_64 random_;
  std::vector<std::uint16_t> copies_;
  std::vector<std::uint64_t> numbers_;
  Items items_;
  std::vector<Filter::AddOutcome> outcomes_;
  bool answers_[batch_items] = {};
  KeptMemory memory_;
  std::uint64_t denied_ = 0;
};

bool play(std::uint64_t thread_count, std::uint64_t operations) {
  constexpr std::uint64_t items_of_all = 4'000'000;
  const FilterPtr filter = made({.capacity = 1'000'000});
  std::vector<std::unique_ptr<Player>> players;
  for (std::uint64_t thread = 0; thread < thread_count; ++thread)
    players.push_back(std::make_unique<Player>(*filter, thread, items_of_all / thread_count));
  std::vector<std::thread> threads;
  for (const auto& player : players)
    threads.emplace_back([&player, operations, thread_count] { player->play(operations / thread_count); });
  for (std::thread& thread : threads) thread.join();
  std::uint64_t denied = 0;
  for (const auto& player : players) denied += player->denied();
  std::printf("\n%llu random operations of %llu threads: %llu stored items denied\n",
              static_cast<unsigned long long>(operations), static_cast<unsigned long long>(thread_count),
              static_cast<unsigned long long>(denied));
  return denied == 0;
}

}  // namespace

int main(int argument_count, char** arguments) {
  bool quick = false;
  std::uint64_t thread_count = 2;
  std::uint64_t operations = 0;
  for (int at = 1; at < argument_count; ++at) {
    const bool has_value = at + 1 < argument_count;
    if (std::strcmp(arguments[at], "--quick") == 0) {
      quick = true;
    } else if (std::strcmp(arguments[at], "--threads") == 0 && has_value) {
      thread_count = std::max(1ULL, std::strtoull(arguments[++at], nullptr, 10));
    } else if (std::strcmp(arguments[at], "--operations") == 0 && has_value) {
      operations = std::strtoull(arguments[++at], nullptr, 10);
    } else {
      give_up("usage: deletions [--quick] [--threads N] [--operations N]");
    }
  }
  if (operations == 0) operations = quick ? 2'000'000 : 1'000'000'000;

  Report report{.absent = quick ? 1'000'000U : 10'000'000U};
  std::printf("%-6s %9s %-8s %-8s %9s  %-9s  %-5s  %6s\n", "asked", "capacity", "kind", "state", "items",
              "rate", "/asked", "bits");
  const std::vector<std::uint64_t> capacities =
      quick ? std::vector<std::uint64_t>{20'000} : std::vector<std::uint64_t>{1'000'000, 10'000'000};
  for (const double rate : {0.03, 0.01, 0.001}) {
    for (const std::uint64_t capacity : capacities)
      for (const std::uint32_t expansion : {0U, 1U}) measure(report, rate, capacity, expansion);
    measure_growth(report, rate, quick ? 50 : growth);
  }
  const bool kept = play(thread_count, operations);
  std::printf("%s\n", report.broken || !kept ? "BROKEN PROMISES" : "all promises kept");
  return report.broken || !kept ? 1 : 0;
}
