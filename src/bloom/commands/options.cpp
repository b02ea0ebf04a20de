// Clients match on the error texts, so it matters which error comes first. BF.RESERVE reports the rate, then
// the capacity, then the options from the left, and last a contradiction between them. BF.INSERT reports the
// first bad word from the left.
#include <sepal/base/arguments.hpp>
#include <sepal/bloom/commands/options.hpp>
#include <sepal/bloom/commands/texts.hpp>

#include <cmath>
#include <optional>
#include <utility>

namespace sepal::bloom {
namespace {

// Stores the parsed value, or returns the refusal.
template <class Value>
std::optional<Refusal> store(const Parsed<Value>& parsed, Value& into) {
  if (const auto* refusal = std::get_if<Refusal>(&parsed)) return *refusal;
  into = std::get<Value>(parsed);
  return std::nullopt;
}

// The errors for the number of one option.
struct NumberTexts {
  std::string_view bad;    // the word is not a number
  std::string_view range;  // the number is out of range
};
// BF.RESERVE tells a bad word from a bad number; BF.INSERT has one text for both, as in the reference.
constexpr NumberTexts reserve_rate{text::reserve_bad_rate, text::reserve_rate_range};
constexpr NumberTexts reserve_capacity{text::reserve_bad_capacity, text::reserve_capacity_range};
constexpr NumberTexts reserve_expansion{text::reserve_bad_expansion, text::reserve_expansion_range};
constexpr NumberTexts insert_rate{text::insert_bad_rate, text::insert_bad_rate};
constexpr NumberTexts insert_capacity{text::insert_bad_capacity, text::insert_bad_capacity};
constexpr NumberTexts insert_expansion{text::insert_bad_expansion, text::insert_bad_expansion};

Parsed<double> parse_rate(std::string_view word, const NumberTexts& texts) {
  const std::optional<double> rate = parse_real(word);
  if (!rate) return Refusal{texts.bad};
  // Refuses NaN, too.
  if (!(*rate > 0 && *rate < 1)) return Refusal{texts.range};
  return *rate;
}

Parsed<std::uint64_t> parse_capacity(std::string_view word, const NumberTexts& texts) {
  const std::optional<std::uint64_t> capacity = parse_unsigned(word);
  if (capacity && *capacity > 0) return *capacity;
  // A negative number that does not fit into 64 bits is not a number for the reference.
  return Refusal{capacity || parse_integer(word) ? texts.range : texts.bad};
}

Parsed<std::uint32_t> parse_expansion(std::string_view word, const NumberTexts& texts) {
  // As a signed number, so that a negative one gets the text about the range.
  const std::optional<std::int64_t> expansion = parse_integer(word);
  if (!expansion) return Refusal{texts.bad};
  if (*expansion < 0 || *expansion > bloom::expansion_max) return Refusal{texts.range};
  return static_cast<std::uint32_t>(*expansion);
}

// `bad_expiry`: the error for a number that is no time to live.
Parsed<std::int64_t> parse_seconds(std::string_view word, std::string_view bad_expiry) {
  const std::optional<std::int64_t> seconds = parse_integer(word);
  if (!seconds) return Refusal{text::not_an_integer};
  if (*seconds <= 0) return Refusal{bad_expiry};
  return *seconds;
}

// The words of a window, which both commands have.
struct WindowWords {
  std::optional<double> seconds;
  bool last = false;
  std::optional<std::uint64_t> generations;
  bool refresh = false;

  // Whether the word at `at` is one of them. Goes on to its value, if it has one.
  [[nodiscard]] bool take(std::span<const std::string_view> words, std::size_t& at,
                          std::optional<Refusal>& refusal);
  // Nothing where no window is asked for.
  [[nodiscard]] Parsed<std::optional<WindowOptions>> options(const FilterOptions& asked,
                                                             bool expansion_given) const;
};

bool WindowWords::take(std::span<const std::string_view> words, std::size_t& at,
                       std::optional<Refusal>& refusal) {
  if (equal_ignoring_case(words[at], "LAST")) return last = true;
  if (equal_ignoring_case(words[at], "REFRESH")) return refresh = true;
  const bool is_window = equal_ignoring_case(words[at], "WINDOW");
  if (!is_window && !equal_ignoring_case(words[at], "GENERATIONS")) return false;
  const std::string_view word = ++at < words.size() ? words[at] : std::string_view();
  if (is_window) {
    seconds = parse_real(word);
    // Refuses NaN, too.
    if (!seconds || !(*seconds > 0)) refusal = Refusal{text::bad_window};
  } else {
    generations = parse_unsigned(word);
    if (!generations || *generations < 1 || *generations > window_generations_max)
      refusal = Refusal{text::bad_generations};
  }
  return true;
}

Parsed<std::optional<WindowOptions>> WindowWords::options(const FilterOptions& asked,
                                                          bool expansion_given) const {
  if (!seconds && !last) {
    if (generations || refresh) return Refusal{text::window_missing};
    return std::optional<WindowOptions>();
  }
  if (seconds && last) return Refusal{text::window_and_last};
  if (last && expansion_given && asked.expansion != 0) return Refusal{text::last_and_expansion};
  WindowOptions window{
      .error_rate = asked.error_rate,
      .capacity = asked.capacity,
      .expansion = last ? 0 : asked.expansion,
      .generations = static_cast<std::uint32_t>(generations.value_or(window_generations_default)),
      .refresh = refresh,
      .seed = asked.seed};
  constexpr double milliseconds_a_second = 1000;
  if (seconds) {
    const double milliseconds = *seconds * milliseconds_a_second;
    if (!(milliseconds <= static_cast<double>(window_milliseconds_max)))
      return Refusal{text::window_too_long};
    window.milliseconds = static_cast<std::uint64_t>(std::llround(milliseconds));
    if (window.milliseconds < window.generations * generation_milliseconds_min)
      return Refusal{text::window_too_short};
  }
  if (last && window.capacity < window.generations) return Refusal{text::last_too_few};
  return std::optional(window);
}

struct ReserveWords {
  bool nonscaling = false;
  std::optional<std::uint32_t> expansion;
  std::optional<std::int64_t> seconds;
  WindowWords window;

  // Takes the word at `at`, and its value.
  std::optional<Refusal> take(std::span<const std::string_view> words, std::size_t& at);
};

std::optional<Refusal> ReserveWords::take(std::span<const std::string_view> words, std::size_t& at) {
  std::optional<Refusal> refused;
  if (window.take(words, at, refused)) return refused;
  if (equal_ignoring_case(words[at], "NONSCALING")) {
    nonscaling = true;
    return std::nullopt;
  }
  if (equal_ignoring_case(words[at], "EXPANSION")) {
    if (++at == words.size()) return Refusal{text::reserve_no_expansion};
    return store(parse_expansion(words[at], reserve_expansion), expansion.emplace());
  }
  if (equal_ignoring_case(words[at], "EX")) {
    if (++at == words.size()) return Refusal{text::syntax};
    return store(parse_seconds(words[at], text::reserve_bad_expiry), seconds.emplace());
  }
  return Refusal{text::reserve_unknown_word};
}

// [EXPANSION expansion] [NONSCALING] [EX seconds] and the words of a window, in any order. If a word is
// repeated, the last one counts.
std::optional<Refusal> parse_reserve_options(std::span<const std::string_view> words,
                                             ReserveRequest& request) {
  ReserveWords options;
  for (std::size_t at = 0; at < words.size(); ++at)
    if (const auto refusal = options.take(words, at)) return refusal;
  // Judged after all words, because they come in any order. EXPANSION 0 says the same as NONSCALING.
  if (options.nonscaling && options.expansion.value_or(0) != 0) return Refusal{text::reserve_contradiction};
  if (options.expansion) request.options.expansion = *options.expansion;
  if (options.nonscaling) request.options.expansion = 0;
  request.seconds = options.seconds;
  return store(options.window.options(request.options, options.nonscaling || options.expansion),
               request.window);
}

// Options that take a value come first: takes_value() relies on this order.
enum class InsertOption : std::uint8_t { capacity, error, expansion, seconds, nocreate, nonscaling, items };

std::optional<InsertOption> insert_option(std::string_view word) {
  constexpr std::pair<std::string_view, InsertOption> options[] = {
      {"CAPACITY", InsertOption::capacity},   {"ERROR", InsertOption::error},
      {"EXPANSION", InsertOption::expansion}, {"EX", InsertOption::seconds},
      {"NOCREATE", InsertOption::nocreate},   {"NONSCALING", InsertOption::nonscaling},
      {"ITEMS", InsertOption::items}};
  for (const auto& [name, option] : options)
    if (equal_ignoring_case(word, name)) return option;
  return std::nullopt;
}

bool takes_value(InsertOption option) {
  return option <= InsertOption::seconds;
}

std::optional<Refusal> store_insert_value(InsertOption option, std::string_view value,
                                          InsertRequest& request) {
  bloom::FilterOptions& options = request.options;
  if (option == InsertOption::seconds)
    return store(parse_seconds(value, text::insert_bad_expiry), request.seconds.emplace());
  if (option == InsertOption::capacity)
    return store(parse_capacity(value, insert_capacity), options.capacity);
  if (option == InsertOption::error) return store(parse_rate(value, insert_rate), options.error_rate);
  return store(parse_expansion(value, insert_expansion), options.expansion);
}

// store() returns nothing where a value was stored: then the text is empty.
std::string_view refusal_text(const std::optional<Refusal>& refusal) {
  return refusal ? refusal->text : std::string_view();
}

}  // namespace

std::string_view read_capacity(std::string_view word, std::uint64_t& capacity) {
  return refusal_text(store(parse_capacity(word, reserve_capacity), capacity));
}
std::string_view read_rate(std::string_view word, double& rate) {
  return refusal_text(store(parse_rate(word, reserve_rate), rate));
}
std::string_view read_expansion(std::string_view word, std::uint32_t& expansion) {
  return refusal_text(store(parse_expansion(word, reserve_expansion), expansion));
}

Parsed<ReserveRequest> parse_reserve(std::span<const std::string_view> words,
                                     const bloom::FilterOptions& defaults) {
  ReserveRequest request{.options = defaults, .seconds = std::nullopt, .window = {}};
  bloom::FilterOptions& options = request.options;
  if (const auto refusal = store(parse_rate(words[0], reserve_rate), options.error_rate)) return *refusal;
  if (const auto refusal = store(parse_capacity(words[1], reserve_capacity), options.capacity))
    return *refusal;
  if (const auto refusal = parse_reserve_options(words.subspan(2), request)) return *refusal;
  return request;
}

namespace {

struct InsertWords {
  bool nonscaling = false;
  bool expansion_given = false;
  WindowWords window;
};

// The error for an option that there is not. It tells what there is in place of those of Valkey's Bloom
// module.
Refusal unknown_insert_word(std::string_view word) {
  constexpr std::pair<std::string_view, std::string_view> of_valkey[] = {
      {"TIGHTENING", text::insert_tightening},
      {"SEED", text::insert_seed},
      {"VALIDATESCALETO", text::insert_validate}};
  for (const auto& [option, answer] : of_valkey)
    if (equal_ignoring_case(word, option)) return Refusal{answer};
  return Refusal{text::insert_unknown_word};
}

// Takes the option at `at`, and its value.
std::variant<std::monostate, Refusal, TooFewWords> take_insert_option(std::span<const std::string_view> words,
                                                                      std::size_t& at, InsertWords& taken,
                                                                      InsertRequest& request) {
  const std::optional<InsertOption> option = insert_option(words[at]);
  if (!option) {
    std::optional<Refusal> refused;
    if (!taken.window.take(words, at, refused)) return unknown_insert_word(words[at]);
    if (refused) return *refused;
    return {};
  }
  taken.expansion_given = taken.expansion_given || *option == InsertOption::expansion;
  taken.nonscaling = taken.nonscaling || *option == InsertOption::nonscaling;
  if (*option == InsertOption::nocreate) request.create = false;
  if (!takes_value(*option)) return {};
  if (++at == words.size()) return TooFewWords{};
  if (const auto refusal = store_insert_value(*option, words[at], request)) return *refusal;
  return {};
}

}  // namespace

std::variant<InsertRequest, Refusal, TooFewWords> parse_insert(std::span<const std::string_view> words,
                                                               const bloom::FilterOptions& defaults) {
  InsertRequest request{
      .options = defaults, .create = true, .items = {}, .seconds = std::nullopt, .window = {}};
  InsertWords taken;
  for (std::size_t at = 0; at < words.size(); ++at) {
    // All words behind ITEMS are items, also those that read like an option.
    if (insert_option(words[at]) == InsertOption::items) {
      request.items = words.subspan(at + 1);
      break;
    }
    const auto outcome = take_insert_option(words, at, taken, request);
    if (const auto* const refusal = std::get_if<Refusal>(&outcome)) return *refusal;
    if (std::holds_alternative<TooFewWords>(outcome)) return TooFewWords{};
  }
  if (request.items.empty()) return TooFewWords{};
  if (taken.nonscaling) request.options.expansion = 0;
  if (const auto refusal =
          store(taken.window.options(request.options, taken.expansion_given), request.window))
    return *refusal;
  return request;
}

}  // namespace sepal::bloom
