#include "module/settings.hpp"

#include <sepal/base/arguments.hpp>
#include <sepal/base/random.hpp>
#include <sepal/bloom/commands/options.hpp>

#include <array>
#include <exception>

namespace sepal::module {
namespace {

// The texts of read_rate() and so on are made for clients, and begin with an error code. Here they go to the
// log, or behind an error code of the server's own.
std::string without_code(std::string_view text) {
  constexpr std::string_view code = "ERR ";
  if (text.starts_with(code)) text.remove_prefix(code.size());
  return std::string(text);
}

std::string read_error_rate(std::string_view word, Settings& into) {
  return without_code(bloom::read_rate(word, into.options.error_rate));
}

std::string read_initial_size(std::string_view word, Settings& into) {
  return without_code(bloom::read_capacity(word, into.options.capacity));
}

std::string read_expansion(std::string_view word, Settings& into) {
  return without_code(bloom::read_expansion(word, into.options.expansion));
}

// An empty word stands for a random seed.
std::string read_seed(std::string_view word, Settings& into) {
  const std::optional<std::uint64_t> seed = parse_unsigned(word);
  if (!seed && !word.empty()) return "it must be a number from 0 to 18446744073709551615";
  into.seed = seed;
  return {};
}

std::string read_missing_filter(std::string_view word, Settings& into) {
  const auto choice = choice_of<bloom::MissingFilter>(lower_case(word));
  if (!choice) return "it must be absent, error or present";
  into.missing_filter = *choice;
  return {};
}

std::string error_rate_text(const Settings& settings) {
  return digits_of_real(settings.options.error_rate);
}

std::string initial_size_text(const Settings& settings) {
  return std::to_string(settings.options.capacity);
}

std::string expansion_text(const Settings& settings) {
  return std::to_string(settings.options.expansion);
}

std::string seed_text(const Settings& settings) {
  return settings.seed ? std::to_string(*settings.seed) : std::string();
}

std::string missing_filter_text(const Settings& settings) {
  return std::string(name_of(settings.missing_filter));
}

struct Setting {
  std::string_view argument;  // of loadmodule
  std::string_view other_argument;
  const char* parameter;  // of CONFIG, behind "bf."
  // Returns what is wrong with the word; empty if nothing is.
  std::string (*read)(std::string_view word, Settings& into);
  std::string (*text)(const Settings& settings);
};
constexpr Setting table[] = {
    {"ERROR_RATE", "ERROR_RATE", "error-rate", read_error_rate, error_rate_text},
    {"INITIAL_SIZE", "CAPACITY", "initial-size", read_initial_size, initial_size_text},
    {"EXPANSION", "EXPANSION", "expansion-factor", read_expansion, expansion_text},
    {"SEED", "SEED", "seed", read_seed, seed_text},
    {"MISSING_FILTER", "MISSING_FILTER", "missing-filter", read_missing_filter, missing_filter_text},
};

std::string read_setting(std::string_view name, std::string_view value, Settings& into) {
  for (const Setting& setting : table)
    if (equal_ignoring_case(name, setting.argument) || equal_ignoring_case(name, setting.other_argument)) {
      const std::string wrong = setting.read(value, into);
      return wrong.empty() ? wrong : std::string(name) + ": " + wrong;
    }
  return "unknown argument " + std::string(echoed(name)) +
         "; known are ERROR_RATE, INITIAL_SIZE, CAPACITY, EXPANSION, SEED and MISSING_FILTER, each with a "
         "value";
}

// The settings that CONFIG reads and changes. The server's main thread.
Settings* offered = nullptr;

RedisModuleString* string_of(std::string_view text) {
  return api.CreateString(nullptr, text.data(), text.size());
}

// The server copies the string and does not free it. So each call frees the string of the call before. No
// exception may reach the server.
RedisModuleString* get_parameter(const char*, void* setting) {
  static RedisModuleString* last = nullptr;
  try {
    RedisModuleString* const next = string_of(static_cast<const Setting*>(setting)->text(*offered));
    if (last != nullptr) api.FreeString(nullptr, last);
    last = next;
    return last;
  } catch (const std::exception&) {
    return nullptr;
  }
}

int set_parameter(const char*, RedisModuleString* value, void* setting, RedisModuleString** refused) {
  std::size_t length = 0;
  const char* const word = api.StringPtrLen(value, &length);
  try {
    // A copy is changed, so a refused value leaves the settings as they are.
    Settings changed = *offered;
    const std::string wrong = static_cast<const Setting*>(setting)->read({word, length}, changed);
    if (wrong.empty()) {
      *offered = changed;
      return status_ok;
    }
    *refused = string_of(wrong);
  } catch (const std::exception&) {
    *refused = string_of("the module has no memory for this value");
  }
  return status_error;
}

}  // namespace

// A system call for each filter would be a sixth of its creation, so many seeds are drawn at once.
std::uint64_t seed_of_new(const Settings& settings) {
  static std::array<std::uint64_t, random_numbers_max> drawn;
  static std::size_t left = 0;
  if (settings.seed) return *settings.seed;
  if (left == 0) {
    draw_random(drawn);
    left = drawn.size();
  }
  return drawn[--left];
}

std::string read_settings(Words words, Settings& into) {
  for (std::size_t at = 0; at < words.size(); at += 2) {
    if (at + 1 == words.size()) return std::string(echoed(words[at])) + ": its value is missing";
    if (std::string wrong = read_setting(words[at], words[at + 1], into); !wrong.empty()) return wrong;
  }
  return {};
}

bool offer_settings(RedisModuleCtx* context, Settings& settings) {
  if (api.RegisterStringConfig == nullptr || api.LoadConfigs == nullptr) return true;
  offered = &settings;
  for (const Setting& setting : table)
    if (api.RegisterStringConfig(context, setting.parameter, setting.text(settings).c_str(), 0, get_parameter,
                                 set_parameter, nullptr, const_cast<Setting*>(&setting)) != status_ok)
      return false;
  // Last: the server now applies the lines of its configuration file, so it must know all parameters.
  return api.LoadConfigs(context) == status_ok;
}

}  // namespace sepal::module
