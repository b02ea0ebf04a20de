// The gain of a second thread: one filter that does not scale, used by 1 and by 2 threads.
//
//     scaling [--capacity N] [--rounds N] [--json]
//
// A quarter of the filter is filled beforehand. Then, in rounds, one thread and two threads alternate. They
// add new items, and look up items of which half are known, in batches and one by one. Each thread has its
// own items, as many as one thread alone. The program prints the medians over the rounds. For the ratio it
// prints the median and the range over the rounds, because a machine's speed drifts; 2 is the ideal. The CPU
// time of an item shows whether threads slow each other down or only wait for a core.
#include <sepal/bloom/filter/filter.hpp>

#include <algorithm>
#include <barrier>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <memory>
#include <span>
#include <string_view>
#include <sys/resource.h>
#include <thread>
#include <vector>

#include "support/items.hpp"
#include "support/settle.hpp"

namespace {

using namespace sepal::bloom;
using Clock = std::chrono::steady_clock;

constexpr std::size_t batch_items = 100;
constexpr std::uint64_t filled_share = 4;  // one part in four is filled beforehand
constexpr std::uint64_t items_each_max = 4'000'000;
constexpr std::uint64_t thread_runs_per_round = 3;  // one thread alone, two together
constexpr double error_rate = 0.01;
constexpr FilterLimits limits{.bytes_max = std::uint64_t{1} << 40, .layers_max = 64};

struct Options {
  std::uint64_t capacity = 100'000'000;
  std::uint64_t rounds = 5;
  bool json = false;
};

struct Work {
  const char* name;
  bool adds;
  std::size_t window_items;
};
constexpr Work works[] = {
    {.name = "add, batches of 100", .adds = true, .window_items = batch_items},
    {.name = "add, one by one", .adds = true, .window_items = 1},
    {.name = "look-up, batches of 100", .adds = false, .window_items = batch_items},
    {.name = "look-up, one by one", .adds = false, .window_items = 1},
};
constexpr std::uint64_t adding_works = 2;

[[noreturn]] void give_up(const char* what) {
  std::fprintf(stderr, "scaling: %s\n", what);
  std::exit(1);
}

double cpu_seconds_of_thread() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

// How often the thread went to sleep.
double waits_of_thread() {
  rusage usage{};
  getrusage(RUSAGE_THREAD, &usage);
  return static_cast<double>(usage.ru_nvcsw);
}

struct Measured {
  double items_per_second = 0;
  double cpu_ns_per_item = 0;
  double waits_per_million = 0;
};

// The times of one thread for its items.
struct Times {
  Clock::time_point start, end;
  double cpu_seconds = 0;
  double waits = 0;
};

// Hands out items and runs the works. All added items are new.
class Bench {
 public:
  explicit Bench(const Options& options)
      : known_items_(options.capacity / filled_share),
        items_each_(std::min((options.capacity - known_items_) /
                                 (options.rounds * adding_works * thread_runs_per_round),
                             items_each_max) /
                    batch_items * batch_items) {
    if (items_each_ == 0) give_up("the capacity is too small for so many rounds");
    auto filter = Filter::create(
        {.error_rate = error_rate, .capacity = options.capacity, .expansion = 0, .seed = 1}, limits);
    if (!filter) give_up("no memory for the filter");
    filter_ = *filter;
    add(0, known_items_ / batch_items * batch_items, batch_items);
    next_new_ = known_items_;
    bench::settle(*filter_);
  }

  Measured run(const Work& work, std::size_t threads) {
    std::vector<Times> times(threads);
    std::barrier together(static_cast<std::ptrdiff_t>(threads));
    std::vector<std::thread> running;
    for (Times& mine : times) {
      const std::uint64_t first = work.adds ? next_new_ : next_draw_;
      (work.adds ? next_new_ : next_draw_) += items_each_;
      running.emplace_back([this, &work, &together, &mine, first] {
        together.arrive_and_wait();
        mine = timed(work, first);
      });
    }
    for (std::thread& thread : running) thread.join();
    return sum(times);
  }

 private:
  Times timed(const Work& work, std::uint64_t first) {
    Times times{.start = Clock::now(), .end = {}};
    const double cpu_before = cpu_seconds_of_thread();
    const double waits_before = waits_of_thread();
    if (work.adds) {
      add(first, items_each_, work.window_items);
    } else {
      look_up(first, items_each_, work.window_items);
    }
    times.cpu_seconds = cpu_seconds_of_thread() - cpu_before;
    times.waits = waits_of_thread() - waits_before;
    times.end = Clock::now();
    return times;
  }

  [[nodiscard]] Measured sum(const std::vector<Times>& threads) const {
    Times all = threads[0];
    for (const Times& each : std::span(threads).subspan(1)) {
      all.start = std::min(all.start, each.start);
      all.end = std::max(all.end, each.end);
      all.cpu_seconds += each.cpu_seconds;
      all.waits += each.waits;
    }
    const auto items = static_cast<double>(items_each_ * threads.size());
    return {.items_per_second = items / std::chrono::duration<double>(all.end - all.start).count(),
            .cpu_ns_per_item = all.cpu_seconds * 1e9 / items,
            .waits_per_million = all.waits * 1e6 / items};
  }

  void add(std::uint64_t first, std::uint64_t count, std::size_t window_items) {
    bench::ItemWindow window(window_items);
    bench::Answers<batch_items> answers;
    for (std::uint64_t done = 0; done < count; done += window_items) {
      if (!filter_->try_add(window.from(first + done), answers.first(window_items)))
        give_up("the filter is full");
    }
  }

  // Half of the drawn items are known.
  void look_up(std::uint64_t draw, std::uint64_t count, std::size_t window_items) const {
    bench::ItemWindow window(window_items);
    bench::Answers<batch_items> answers;
    for (std::uint64_t done = 0; done < count; done += window_items) {
      filter_->contains(window.drawn(draw, 2 * known_items_), answers.first(window_items));
    }
  }

  std::uint64_t known_items_;
  std::uint64_t items_each_;
  std::uint64_t next_new_ = 0;
  std::uint64_t next_draw_ = 0;
  FilterPtr filter_;
};

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

struct Row {
  std::vector<Measured> one_thread, two_threads;  // by round

  [[nodiscard]] std::vector<double> ratios() const {
    return by_round(
        [](const Measured& one, const Measured& two) { return two.items_per_second / one.items_per_second; });
  }
  [[nodiscard]] std::vector<double> cpu_ratios() const {
    return by_round([](const Measured& one, const Measured& two) {
      return 2 * one.cpu_ns_per_item / two.cpu_ns_per_item;
    });
  }

 private:
  template <typename Compare>
  std::vector<double> by_round(Compare compare) const {
    std::vector<double> values;
    for (std::size_t i = 0; i < one_thread.size(); ++i)
      values.push_back(compare(one_thread[i], two_threads[i]));
    return values;
  }
};

double median_of(const std::vector<Measured>& rounds, double Measured::*value) {
  std::vector<double> values;
  for (const Measured& round : rounds) values.push_back(round.*value);
  return median(values);
}

void print(const Work& work, const Row& row, bool json, bool last) {
  const std::vector<double> ratios = row.ratios();
  const auto [least, most] = std::minmax_element(ratios.begin(), ratios.end());
  const char* format =
      json ? " {\"work\": \"%s\", \"one_thread_per_s\": %.0f, \"two_threads_per_s\": %.0f, \"ratio\": %.3f, "
             "\"ratio_min\": %.3f, \"ratio_max\": %.3f, \"one_thread_cpu_ns\": %.1f, \"two_threads_cpu_ns\": "
             "%.1f, \"cpu_ratio\": %.3f, \"waits_per_million\": %.2f}"
           : "%-25s %14.0f %14.0f %6.2f %5.2f %5.2f %10.1f %10.1f %9.2f %6.2f";
  std::printf(format, work.name, median_of(row.one_thread, &Measured::items_per_second),
              median_of(row.two_threads, &Measured::items_per_second), median(ratios), *least, *most,
              median_of(row.one_thread, &Measured::cpu_ns_per_item),
              median_of(row.two_threads, &Measured::cpu_ns_per_item), median(row.cpu_ratios()),
              median_of(row.two_threads, &Measured::waits_per_million));
  std::printf(json && !last ? ",\n" : "\n");
}

Options read_options(int argc, char** argv) {
  Options options;
  for (int at = 1; at < argc; ++at) {
    const std::string_view word = argv[at];
    const bool value = at + 1 < argc;
    if (word == "--json") {
      options.json = true;
    } else if (word == "--capacity" && value) {
      options.capacity = std::strtoull(argv[++at], nullptr, 10);
    } else if (word == "--rounds" && value) {
      options.rounds = std::max(std::strtoull(argv[++at], nullptr, 10), 1ull);
    } else {
      give_up("usage: scaling [--capacity N] [--rounds N] [--json]");
    }
  }
  return options;
}

}  // namespace

int main(int argc, char** argv) {
  const Options options = read_options(argc, argv);
  Bench bench(options);
  Row rows[std::size(works)];
  for (std::uint64_t round = 0; round < options.rounds; ++round) {
    for (std::size_t i = 0; i < std::size(works); ++i) {
      rows[i].one_thread.push_back(bench.run(works[i], 1));
      rows[i].two_threads.push_back(bench.run(works[i], 2));
    }
  }
  if (options.json) {
    std::printf("[\n");
  } else {
    std::printf("%-25s %14s %14s %6s %5s %5s %10s %10s %9s %6s\n", "work", "1 thread, 1/s", "2 threads, 1/s",
                "ratio", "min", "max", "1: CPU ns", "2: CPU ns", "CPU ratio", "waits");
  }
  for (std::size_t i = 0; i < std::size(works); ++i) {
    print(works[i], rows[i], options.json, i + 1 == std::size(works));
  }
  if (options.json) std::printf("]\n");
}
