// Measures whether every filter keeps its error rate, and how many bits it takes.
//
//     accuracy [--quick] [--threads N]
//
// For each rate and capacity it fills filters, looks up items that were never added, and prints a row:
//
//     full      does not scale; as many different items were added as it was reserved for
//     scaling   scales; filled to its capacity, not grown
//     +g        scales by 2; filled until it would grow for the (g+1)-th time
//
// The rate of a single small filter varies around the mean. So a row of small filters uses many filters with
// different seeds. Its standard error is the binomial one or the one between the filters, whichever is
// larger. z is the difference between the measured rate and the requested rate, in standard errors.
//
// The exit status is 1 if a promise is broken: a rate exceeds the requested one by more than z_max standard
// errors; a `full` filter of at least large_capacity items has more than size_ratio_max of the textbook's
// bits; a filter of at most small_capacity items that has not grown is more than small_excess_bytes_max
// larger than the reference's filter.
#include <sepal/bloom/filter/filter.hpp>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace {

using namespace sepal;
using namespace sepal::bloom;

constexpr double z_max = 3;
constexpr double size_ratio_max = 1.05;
constexpr std::uint64_t large_capacity = 10'000;
constexpr std::uint64_t small_capacity = 100;
constexpr double small_excess_bytes_max = 64;

constexpr std::uint64_t absent_items = 10'000'000;
constexpr std::uint64_t absent_items_of_low_rates = 100'000'000;
constexpr double low_rate = 1e-5;
constexpr std::uint64_t total_items_max = 50'000'000;  // after growth
constexpr std::uint64_t quick_divisor = 20;
constexpr std::uint64_t quick_items_max = 200'000;

constexpr FilterLimits limits{.bytes_max = std::uint64_t{1} << 40, .layers_max = 64};

struct Row {
  double error_rate;
  std::uint64_t capacity;
  bool scaling;
  std::uint32_t growths;
  bool until_refused = false;  // add until the filter refuses, not only up to its reserved capacity
  std::uint64_t filter_count = 1;
  std::uint64_t absent_each = 0;

  [[nodiscard]] std::uint64_t total_items() const { return capacity * ((std::uint64_t{2} << growths) - 1); }
};

struct Measured {
  double rate = 0;
  double standard_error = 0;
  double binomial_error = 0;
  double bits = 0;           // bits of one filter's bitmaps
  double textbook_bits = 0;  // bits for the filter's capacity by the textbook
  double reference_bits = 0;
  std::uint64_t items = 0;  // the filter's capacity
  std::uint64_t bytes = 0;  // all of one filter's memory
  std::uint64_t added = 0;  // different items that were given to the first filter
};

// Items of sixteen bytes, all different: their purpose, and a counter.
class Items {
 public:
  static constexpr std::size_t batch_items = 64;

  std::span<const std::string_view> batch(std::uint64_t purpose, std::uint64_t first, std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) {
      numbers_[i] = {purpose, first + i};
      views_[i] = {reinterpret_cast<const char*>(&numbers_[i]), sizeof numbers_[i]};
    }
    return std::span(views_).first(count);
  }

 private:
  struct Number {
    std::uint64_t purpose, index;
  };
  Number numbers_[batch_items] = {};
  std::string_view views_[batch_items];
};

constexpr std::uint64_t to_add = 1, to_ask = 2;

[[noreturn]] void give_up(const char* reason) {
  std::fprintf(stderr, "accuracy: %s\n", reason);
  std::exit(2);
}

// Adds the items and returns how many were new.
std::uint64_t add(Filter& filter, std::span<const std::string_view> items) {
  bool added[Items::batch_items];
  const std::span<bool> answers(added, items.size());
  if (filter.try_add(items, answers))
    return static_cast<std::uint64_t>(std::count(answers.begin(), answers.end(), true));
  std::uint64_t count = 0;
  for (const std::string_view item : items) {
    const auto outcome = filter.add_alone(item, limits);
    if (outcome.refusal != Filter::Refusal::none) give_up("a filter refused an item that it had room for");
    count += outcome.added ? 1 : 0;
  }
  return count;
}

// Returns how many different items were needed.
std::uint64_t fill(Filter& filter, const Row& row) {
  Items items;
  const bool by_count = row.scaling || row.until_refused;
  std::uint64_t given = 0, counted = 0;
  while ((by_count ? counted : given) < row.total_items()) {
    const std::uint64_t missing = row.total_items() - (by_count ? counted : given);
    const auto count = std::min<std::uint64_t>(missing, Items::batch_items);
    counted += add(filter, items.batch(to_add, given, count));
    given += count;
  }
  if (filter.layer_count() != row.growths + 1) give_up("a filter grew when it should not have");
  return given;
}

std::uint64_t count_maybes(const Filter& filter, std::uint64_t absent_count) {
  Items items;
  bool present[Items::batch_items];
  std::uint64_t maybes = 0;
  for (std::uint64_t asked = 0; asked < absent_count;) {
    const auto count = std::min<std::uint64_t>(absent_count - asked, Items::batch_items);
    filter.contains(items.batch(to_ask, asked, count), {present, count});
    maybes += static_cast<std::uint64_t>(std::count(present, present + count, true));
    asked += count;
  }
  return maybes;
}

// The reference's bitmap: rates halve from layer to layer, sizes are rounded up to eight bytes.
double reference_bits(const Row& row) {
  double sum = 0;
  double rate = row.scaling ? row.error_rate / 2 : row.error_rate;
  double capacity = static_cast<double>(row.capacity);
  for (std::uint32_t layer = 0; layer <= row.growths; ++layer, rate /= 2, capacity *= 2)
    sum += 64 * std::ceil(std::max(1.0, std::floor(capacity * textbook_bits_per_item(rate))) / 64);
  return sum;
}

void describe(const Filter& filter, const Row& row, Measured& measured) {
  for (const LayerView& layer : filter.layers())
    measured.bits += static_cast<double>(layer.plan().bit_count());
  measured.items = filter.capacity();
  measured.bytes = filter.byte_count();
  measured.textbook_bits = static_cast<double>(measured.items) * textbook_bits_per_item(row.error_rate);
  measured.reference_bits = reference_bits(row);
}

Measured measure(const Row& row) {
  Measured measured;
  std::vector<double> rates;
  for (std::uint64_t i = 0; i < row.filter_count; ++i) {
    const auto filter = Filter::create({.error_rate = row.error_rate,
                                        .capacity = row.capacity,
                                        .expansion = row.scaling ? 2u : 0u,
                                        .seed = (i + 1) * 0x9e3779b97f4a7c15},
                                       limits);
    if (!filter) give_up(filter.error().detail.c_str());
    measured.added = fill(**filter, row);
    if (i == 0) describe(**filter, row, measured);
    rates.push_back(static_cast<double>(count_maybes(**filter, row.absent_each)) /
                    static_cast<double>(row.absent_each));
  }
  const auto filter_count = static_cast<double>(row.filter_count);
  for (const double rate : rates) measured.rate += rate / filter_count;
  double squares = 0;
  for (const double rate : rates) squares += (rate - measured.rate) * (rate - measured.rate);
  const double asked = static_cast<double>(row.absent_each) * filter_count;
  measured.binomial_error = std::sqrt(row.error_rate * (1 - row.error_rate) / asked);
  const double between = row.filter_count > 1 ? std::sqrt(squares / (filter_count - 1) / filter_count) : 0;
  measured.standard_error = std::max(measured.binomial_error, between);
  return measured;
}

std::vector<Row> all_rows(bool quick) {
  std::vector<Row> rows;
  const auto add_row = [&](Row row) {
    const std::uint64_t items_max = quick ? quick_items_max : total_items_max;
    if (row.total_items() > items_max) return;
    const std::uint64_t absent = row.error_rate < low_rate ? absent_items_of_low_rates : absent_items;
    row.filter_count = std::clamp<std::uint64_t>(2'000'000 / row.total_items(), 1, 400);
    row.absent_each = std::max<std::uint64_t>(1, absent / (quick ? quick_divisor : 1) / row.filter_count);
    rows.push_back(row);
  };
  for (const double error_rate : {0.25, 0.1, 0.01, 0.001, 1e-4, 1e-6}) {
    for (const std::uint64_t capacity : {1, 10, 100, 10'000, 1'000'000, 10'000'000}) {
      add_row({.error_rate = error_rate, .capacity = capacity, .scaling = false, .growths = 0});
      for (const std::uint32_t growths : {0u, 1u, 5u, 10u})
        add_row({.error_rate = error_rate, .capacity = capacity, .scaling = true, .growths = growths});
    }
  }
  for (const double error_rate : {0.25, 0.1, 0.01, 0.001})
    add_row({.error_rate = error_rate,
             .capacity = 10'000,
             .scaling = false,
             .growths = 0,
             .until_refused = true});
  return rows;
}

std::vector<Measured> measure_all(const std::vector<Row>& rows, unsigned thread_count) {
  std::vector<Measured> all(rows.size());
  std::atomic<std::size_t> next{0};
  std::vector<std::thread> threads;
  for (unsigned i = 0; i < thread_count; ++i)
    threads.emplace_back([&] {
      for (std::size_t at = next++; at < rows.size(); at = next++) all[at] = measure(rows[at]);
    });
  for (std::thread& thread : threads) thread.join();
  return all;
}

// The contents of the last lines.
struct Summary {
  double z = -1e9, binomial_z = -1e9, ratio = 0, small_excess_bytes = -1e9, grown_excess_bytes = -1e9;
  bool broken = false;
};

bool judge(const Row& row, const Measured& measured, double z, Summary& summary) {
  const double ratio = measured.bits / measured.textbook_bits;
  const double excess_bytes = (measured.bits - measured.reference_bits) / 8;
  bool kept = z <= z_max;
  summary.z = std::max(summary.z, z);
  summary.binomial_z =
      std::max(summary.binomial_z, (measured.rate - row.error_rate) / measured.binomial_error);
  if (!row.scaling && row.capacity >= large_capacity) {
    summary.ratio = std::max(summary.ratio, ratio);
    kept = kept && ratio <= size_ratio_max;
  }
  if (row.capacity <= small_capacity && row.growths == 0) {
    summary.small_excess_bytes = std::max(summary.small_excess_bytes, excess_bytes);
    kept = kept && excess_bytes <= small_excess_bytes_max;
  } else if (row.capacity <= small_capacity) {
    summary.grown_excess_bytes = std::max(summary.grown_excess_bytes, excess_bytes);
  }
  summary.broken = summary.broken || !kept;
  return kept;
}

void print_row(const Row& row, const Measured& measured, Summary& summary) {
  const double z = (measured.rate - row.error_rate) / measured.standard_error;
  const double items = static_cast<double>(measured.items);
  const std::string kind =
      row.scaling ? row.growths == 0 ? "scaling" : "+" + std::to_string(row.growths) : "full";
  const char* verdict = judge(row, measured, z, summary) ? "ok" : z > z_max ? "ABOVE" : "TOO LARGE";
  std::printf("%-6g %9llu %-7s %8llu %4llu  %.4e  %.4f %7.1f  %9.3f %8.3f  %7.3f %9.0f  %s\n", row.error_rate,
              static_cast<unsigned long long>(row.capacity), kind.c_str(),
              static_cast<unsigned long long>(measured.items),
              static_cast<unsigned long long>(row.filter_count), measured.rate,
              measured.rate / row.error_rate, z, measured.bits / items, measured.textbook_bits / items,
              measured.bits / measured.textbook_bits, (measured.bits - measured.reference_bits) / 8, verdict);
}

void print_until_refused(const Row& row, const Measured& measured) {
  std::printf(
      "  rate %g, capacity %llu: refuses after %.4f x capacity different items, rate then %.4f of that "
      "asked\n",
      row.error_rate, static_cast<unsigned long long>(row.capacity),
      static_cast<double>(measured.added) / static_cast<double>(row.capacity),
      measured.rate / row.error_rate);
}

Summary print(const std::vector<Row>& rows, const std::vector<Measured>& all) {
  Summary summary;
  std::printf("%-6s %9s %-7s %8s %4s  %-10s  %-6s %7s  %9s %8s  %7s %9s\n", "asked", "capacity", "kind",
              "items", "of", "measured", "/asked", "z", "bits/item", "textbook", "ratio", "over ref");
  for (std::size_t i = 0; i < rows.size(); ++i)
    if (!rows[i].until_refused) print_row(rows[i], all[i], summary);
  std::printf(
      "\nA filter that does not scale counts what changed a bit, as the reference does. Items that it takes "
      "for known\n"
      "ones by mistake are not counted, so it refuses only after more different items than it was reserved "
      "for:\n");
  for (std::size_t i = 0; i < rows.size(); ++i)
    if (rows[i].until_refused) print_until_refused(rows[i], all[i]);
  std::printf("\nworst z                                        %.2f (at most %.0f)\n", summary.z, z_max);
  std::printf("worst z by the binomial error alone            %.2f\n", summary.binomial_z);
  std::printf("worst size of `full` from %llu items on      %.4f of the textbook's (at most %.2f)\n",
              static_cast<unsigned long long>(large_capacity), summary.ratio, size_ratio_max);
  std::printf(
      "worst excess of a small filter's bitmap        %.0f bytes over the reference's (at most %.0f)\n",
      summary.small_excess_bytes, small_excess_bytes_max);
  std::printf("the same after growth                          %.0f bytes\n", summary.grown_excess_bytes);
  std::printf("%s\n", summary.broken ? "BROKEN PROMISES" : "all promises kept");
  return summary;
}

}  // namespace

int main(int argument_count, char** arguments) {
  bool quick = false;
  unsigned thread_count = std::min(2u, std::max(1u, std::thread::hardware_concurrency()));
  for (int i = 1; i < argument_count; ++i) {
    if (std::strcmp(arguments[i], "--quick") == 0)
      quick = true;
    else if (std::strcmp(arguments[i], "--threads") == 0 && i + 1 < argument_count)
      thread_count = static_cast<unsigned>(std::max(1, std::atoi(arguments[++i])));
    else
      give_up("usage: accuracy [--quick] [--threads N]");
  }
  const std::vector<Row> rows = all_rows(quick);
  return print(rows, measure_all(rows, thread_count)).broken ? 1 : 0;
}
