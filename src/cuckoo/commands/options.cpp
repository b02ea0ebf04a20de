#include <sepal/base/arguments.hpp>
#include <sepal/cuckoo/commands/options.hpp>

#include <algorithm>
#include <array>
#include <bit>
#include <optional>

namespace sepal::cuckoo {
namespace {

constexpr std::uint64_t buckets_of_capacity_min = 2;

// A whole number of an option.
struct NumberOption {
  std::string_view name;
  std::int64_t least;
  std::int64_t most;
  std::string_view bad;
  std::string_view range;
};
constexpr NumberOption iterations_option{"MAXITERATIONS", 1, iterations_max, text::bad_iterations,
                                         text::iterations_range};
constexpr NumberOption bucket_size_option{"BUCKETSIZE", 1, bucket_size_max, text::bad_bucket_size,
                                          text::bucket_size_range};
constexpr NumberOption expansion_option{"EXPANSION", 0, expansion_max, text::bad_expansion,
                                        text::expansion_range};
constexpr std::string_view error_option = "ERROR";

std::optional<sepal::Refusal> read(const NumberOption& option, std::string_view word, std::int64_t& into) {
  const std::optional<std::int64_t> number = parse_integer(word);
  if (!number) return sepal::Refusal{option.bad};
  if (*number < option.least || *number > option.most) return sepal::Refusal{option.range};
  into = *number;
  return std::nullopt;
}

std::optional<sepal::Refusal> read_rate(std::string_view word, double& rate) {
  const std::optional<double> number = parse_real(word);
  if (!number) return sepal::Refusal{text::bad_rate};
  if (!(*number > 0 && *number < 1)) return sepal::Refusal{text::rate_range};
  static_assert(error_rate_min == 1.1e-13, "text::rate_too_low names it");
  if (*number < error_rate_min) return sepal::Refusal{text::rate_too_low};
  rate = *number;
  return std::nullopt;
}

bool fits(std::int64_t capacity, const Options& options) {
  return capacity >= 0 && static_cast<std::uint64_t>(capacity) <= capacity_max &&
         static_cast<std::uint64_t>(capacity) >= buckets_of_capacity_min * options.bucket_size;
}

// The values of the options by their place in the order of errors; empty: the option is not there.
struct ReserveWords {
  std::array<std::optional<std::string_view>, 4> values;
  static constexpr std::array<std::string_view, 4> names{iterations_option.name, bucket_size_option.name,
                                                         expansion_option.name, error_option};
};

}  // namespace

std::uint32_t rounded_expansion(std::uint32_t expansion) {
  return expansion == 0 ? 0 : std::bit_ceil(expansion);
}

std::variant<Options, sepal::Refusal, TooFewWords> parse_reserve(std::span<const std::string_view> words,
                                                                 const Options& defaults) {
  Options options = defaults;
  options.capacity_given = true;
  if (words.size() % 2 == 0) return TooFewWords{};
  const std::optional<std::int64_t> capacity = parse_integer(words[0]);
  if (!capacity) return sepal::Refusal{text::bad_capacity};
  ReserveWords found;
  std::optional<sepal::Refusal> unknown;
  for (std::size_t at = 1; at < words.size(); at += 2) {
    const auto* const name = std::ranges::find_if(
        ReserveWords::names, [&](std::string_view each) { return equal_ignoring_case(each, words[at]); });
    if (name == ReserveWords::names.end()) {
      unknown = sepal::Refusal{text::unknown_word};
    } else {
      found.values[static_cast<std::size_t>(name - ReserveWords::names.begin())] = words[at + 1];
    }
  }
  std::int64_t number = 0;
  if (found.values[0]) {
    if (const auto refused = read(iterations_option, *found.values[0], number)) return *refused;
    options.iteration_max = static_cast<std::uint16_t>(number);
  }
  if (found.values[1]) {
    if (const auto refused = read(bucket_size_option, *found.values[1], number)) return *refused;
    options.bucket_size = static_cast<std::uint16_t>(number);
  }
  if (found.values[2]) {
    if (const auto refused = read(expansion_option, *found.values[2], number)) return *refused;
    options.expansion = rounded_expansion(static_cast<std::uint32_t>(number));
  }
  if (found.values[3])
    if (const auto refused = read_rate(*found.values[3], options.error_rate)) return *refused;
  if (!fits(*capacity, options)) return sepal::Refusal{text::reserve_capacity_range};
  if (unknown) return *unknown;
  options.capacity = static_cast<std::uint64_t>(*capacity);
  return options;
}

std::variant<InsertRequest, sepal::Refusal, TooFewWords> parse_insert(std::span<const std::string_view> words,
                                                                      const Options& defaults) {
  InsertRequest request{.options = defaults, .create = true, .items = {}};
  for (std::size_t at = 0; at < words.size(); ++at) {
    if (equal_ignoring_case(words[at], "NOCREATE")) {
      request.create = false;
    } else if (equal_ignoring_case(words[at], "CAPACITY")) {
      if (++at == words.size()) return TooFewWords{};
      const std::optional<std::int64_t> capacity = parse_integer(words[at]);
      if (!capacity) return sepal::Refusal{text::bad_capacity};
      if (!fits(*capacity, request.options)) return sepal::Refusal{text::insert_capacity_range};
      request.options.capacity = static_cast<std::uint64_t>(*capacity);
      request.options.capacity_given = true;
    } else if (equal_ignoring_case(words[at], error_option)) {
      if (++at == words.size()) return TooFewWords{};
      if (const auto refused = read_rate(words[at], request.options.error_rate)) return *refused;
    } else if (equal_ignoring_case(words[at], "ITEMS")) {
      // All words behind it are items, also those that read like an option.
      request.items = words.subspan(at + 1);
      break;
    } else {
      return sepal::Refusal{text::unknown_word};
    }
  }
  if (request.items.empty()) return TooFewWords{};
  return request;
}

std::uint64_t bucket_count(const Options& options) {
  return std::bit_ceil(std::max<std::uint64_t>(options.capacity / options.bucket_size, 1));
}

}  // namespace sepal::cuckoo
