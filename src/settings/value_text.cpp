// Flags and quoted texts of the file go through parse_value(). Other values of the file go to check_range()
// at once, where parse_value() ends as well. CONFIG SET reads values in its own way (configuration.cpp), and
// calls check_range(), too. So one place knows the ranges.
#include "settings/value_text.hpp"

#include <sepal/base/arguments.hpp>
#include <sepal/base/whole_number.hpp>
#include <sepal/bloom/plan/layer_plan.hpp>
#include <sepal/settings/container.hpp>

#include <algorithm>
#include <arpa/inet.h>
#include <array>
#include <charconv>
#include <cstdio>
#include <utility>

#include "settings/quantity.hpp"

namespace sepal::settings {
namespace {

constexpr std::string_view automatic_seed = "auto";
constexpr std::size_t host_name_length_max = 253;  // RFC 1035
static_assert(bloom::error_rate_min > 0 && bloom::error_rate_min < 1);

Error refuse(const Setting& setting) {
  return fail(Errc::invalid_setting, allowed_text(setting));
}

// The text of one end of the range, in the setting's unit.
std::string end_text(const Setting& setting, std::uint64_t end) {
  switch (setting.kind) {
    case Kind::bytes: return bytes_text(end);
    case Kind::permissions: {
      std::array<char, 24> octal{};
      return {octal.data(), std::to_chars(octal.data(), octal.data() + octal.size(), end, 8).ptr};
    }
    default: return std::to_string(end);
  }
}

std::string between(const Setting& setting) {
  return "between " + end_text(setting, setting.range.min) + " and " + end_text(setting, setting.range.max);
}

Result<Value> parse_number(const Setting& setting, const std::optional<std::uint64_t>& number) {
  if (!number) return refuse(setting);
  return check_range(setting, *number);
}

Result<Value> parse_rate(const Setting& setting, std::string_view text) {
  // "nan" and "inf" are numbers here: in_range() refuses both, because a comparison with NaN is false.
  const std::optional<double> rate = parse_whole<double>(text);
  return rate ? check_range(setting, *rate) : refuse(setting);
}

Result<Value> parse_addresses(const Setting& setting, std::string_view text) {
  constexpr std::string_view separators = ", \t";
  std::vector<std::string> addresses;
  for (std::size_t at = text.find_first_not_of(separators); at != std::string_view::npos;) {
    const std::size_t end = std::min(text.find_first_of(separators, at), text.size());
    addresses.emplace_back(text.substr(at, end - at));
    at = text.find_first_not_of(separators, end);
  }
  return check_range(setting, std::move(addresses));
}

Result<Value> parse_seed(const Setting& setting, std::string_view text) {
  if (text == automatic_seed) return Value(Seed());
  const bool hexadecimal = text.starts_with("0x");
  const auto number =
      hexadecimal ? parse_whole<std::uint64_t>(text.substr(2), 16) : parse_whole<std::uint64_t>(text);
  return number ? Result<Value>(Value(Seed(*number))) : refuse(setting);
}

// Only the resolver knows whether a name exists. Here the text must look like a name. Text with only digits
// and dots is meant as an IPv4 address.
bool is_host_name(std::string_view text) {
  constexpr std::string_view numeric = "0123456789.";
  constexpr std::string_view letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-_";
  const bool has_letter = text.find_first_of(letters) != std::string_view::npos;
  const auto allowed = [&](char c) {
    return numeric.find(c) != std::string_view::npos || letters.find(c) != std::string_view::npos;
  };
  return has_letter && text.size() <= host_name_length_max && std::all_of(text.begin(), text.end(), allowed);
}

bool is_address(std::string_view text) {
  // As in redis.conf: a leading '-' says that sepald may start without this address.
  if (text.starts_with('-')) text.remove_prefix(1);
  // inet_pton() would not see what stands behind a NUL.
  if (text.find('\0') != std::string_view::npos) return false;
  if (text == "*" || text == "::*" || is_host_name(text)) return true;
  // Large enough for both families. inet_pton() wants a text that ends with a NUL, which a view does not.
  in6_addr ignored{};
  const std::string whole(text);
  if (inet_pton(AF_INET, whole.c_str(), &ignored) == 1) return true;
  // A link-local IPv6 address names its interface behind a percent sign.
  const std::string address(text.substr(0, text.find('%')));
  return inet_pton(AF_INET6, address.c_str(), &ignored) == 1;
}

// TOML allows no control characters in a text, so these are escaped. Bytes from 0x80 on are written as they
// are. If they are not UTF-8, CONFIG REWRITE finds that its text cannot be parsed, says so, and keeps the old
// file.
std::string toml_string(std::string_view text) {
  std::string written = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      written += '\\';
      written += c;
    } else if (byte < 0x20 || byte == 0x7f) {
      std::array<char, 8> escaped{};
      std::snprintf(escaped.data(), escaped.size(), "\\u%04X", byte);
      written += escaped.data();
    } else {
      written += c;
    }
  }
  return written + '"';
}

// Which of the addresses is wrong. Empty: none is, so there are too many.
std::string wrong_address_text(const std::vector<std::string>& addresses) {
  const auto wrong = std::find_if_not(addresses.begin(), addresses.end(), is_address);
  if (wrong == addresses.end()) return "";
  // Digits and dots are a mistyped IPv4 address, so the error speaks of no host name. A text of any length
  // may stand here, so the error shows its begin only.
  const bool is_numeric = wrong->find_first_not_of("-0123456789.") == std::string::npos;
  return "; " + toml_string(wrong->substr(0, host_name_length_max)) + " is no address" +
         (is_numeric ? "" : " and no host name");
}

bool in_range(const Setting& setting, const Value& value) {
  const auto within = [&](std::uint64_t number) {
    return number >= setting.range.min && number <= setting.range.max;
  };
  switch (setting.kind) {
    case Kind::rate: {
      // A row for a rate has no range of its own (is_right() in setting_table.cpp).
      const double rate = std::get<double>(value);
      return rate >= bloom::error_rate_min && rate < 1;
    }
    case Kind::text: {
      const auto& text = std::get<std::string>(value);
      // System calls would end a path at a NUL.
      return within(text.size()) && (setting.secret || text.find('\0') == std::string::npos);
    }
    case Kind::choice: {
      const auto& choices = setting.choices;
      return std::find(choices.begin(), choices.end(), std::get<std::string>(value)) != choices.end();
    }
    case Kind::addresses: {
      const auto& addresses = std::get<std::vector<std::string>>(value);
      return within(addresses.size()) && std::all_of(addresses.begin(), addresses.end(), is_address);
    }
    case Kind::seed: return true;
    default: return within(std::get<std::uint64_t>(value));
  }
}

// A quantity without a unit needs no quotes.
std::string quoted_quantity(const std::string& text) {
  return text.find_first_not_of("0123456789") == std::string::npos ? text : toml_string(text);
}

std::string seed_text(const Seed& seed) {
  if (!seed) return toml_string(automatic_seed);
  // A plain number in TOML has 63 bits.
  const std::string digits = std::to_string(*seed);
  return *seed >> 63 == 0 ? digits : toml_string(digits);
}

}  // namespace

std::optional<std::uint64_t> parse_bytes_of(const Setting& setting, std::string_view text) {
  return setting.of_memory && text.ends_with('%') ? parse_memory(text, memory_bytes()) : parse_bytes(text);
}

Result<Value> parse_value(const Setting& setting, std::string_view text) {
  switch (setting.kind) {
    case Kind::count: return parse_number(setting, parse_whole<std::uint64_t>(text));
    case Kind::bytes: return parse_number(setting, parse_bytes_of(setting, text));
    case Kind::seconds: return parse_number(setting, parse_seconds(text));
    case Kind::permissions: return parse_number(setting, parse_whole<std::uint64_t>(text, 8));
    case Kind::rate: return parse_rate(setting, text);
    case Kind::addresses: return parse_addresses(setting, text);
    case Kind::seed: return parse_seed(setting, text);
    case Kind::text:
    case Kind::choice: break;
  }
  return check_range(setting, std::string(text));
}

Result<Value> check_range(const Setting& setting, Value value) {
  if (in_range(setting, value)) return value;
  // A number has the right kind already, so only its range was wrong.
  if (setting.kind == Kind::count) return fail(Errc::invalid_setting, "must be " + between(setting));
  if (setting.kind == Kind::addresses)
    return fail(Errc::invalid_setting,
                allowed_text(setting) + wrong_address_text(std::get<std::vector<std::string>>(value)));
  return refuse(setting);
}

std::string allowed_text(const Setting& setting) {
  switch (setting.kind) {
    case Kind::count: return "must be a whole number " + between(setting);
    case Kind::bytes:
      return "must be bytes, as in 1048576, \"64mb\" or \"4GiB\" (k, m, g and t are of 1000, the others of "
             "1024), " +
             between(setting) +
             (setting.of_memory ? ", or a share of the memory there is, as in \"50%\", between 1% and 100%"
                                : "");
    case Kind::seconds: return "must be seconds, as in 90, \"5m\" or \"1h\", " + between(setting);
    case Kind::permissions: return "must be permissions in octal, as in \"700\", " + between(setting);
    case Kind::rate: return "must be a number from " + digits_of_real(bloom::error_rate_min) + " to below 1";
    case Kind::addresses:
      return "must be at most " + std::to_string(setting.range.max) +
             " addresses or host names, as in \"127.0.0.1\", \"::1\" or \"*\"";
    case Kind::seed: return "must be \"auto\" or a whole number of at most 64 bits";
    case Kind::choice: {
      std::string text = "must be one of";
      for (const std::string_view choice : setting.choices)
        text +=
            ' ' + (choice.find(' ') == std::string_view::npos ? std::string(choice) : toml_string(choice));
      return text;
    }
    case Kind::text: break;
  }
  return "must be a text of " + std::to_string(setting.range.min) + " to " +
         std::to_string(setting.range.max) + " bytes" + (setting.secret ? "" : " without NUL");
}

std::string range_text(const Setting& setting) {
  const std::string least = end_text(setting, setting.range.min);
  const std::string most = end_text(setting, setting.range.max);
  switch (setting.kind) {
    case Kind::bytes:
      return least + " to " + most + (setting.of_memory ? ", or 1% to 100% of the memory" : "");
    case Kind::seconds: return least + " to " + most + " seconds";
    case Kind::rate: return digits_of_real(bloom::error_rate_min) + " to below 1";
    case Kind::addresses: return "at most " + most;
    case Kind::seed: return "\"auto\" or a number of 64 bits";
    case Kind::text: return (setting.range.min == 0 ? "at most " : least + " to ") + most + " bytes";
    case Kind::choice: {
      std::string text;
      for (const std::string_view choice : setting.choices) {
        if (!text.empty()) text += choice == setting.choices.back() ? " or " : ", ";
        text += toml_string(choice);
      }
      return text;
    }
    default: return least + " to " + most;
  }
}

std::string toml_text(const Setting& setting, const Value& value) {
  switch (setting.kind) {
    case Kind::count: return std::to_string(std::get<std::uint64_t>(value));
    case Kind::bytes: return quoted_quantity(bytes_text(std::get<std::uint64_t>(value)));
    case Kind::seconds: return quoted_quantity(seconds_text(std::get<std::uint64_t>(value)));
    case Kind::permissions: return toml_string(end_text(setting, std::get<std::uint64_t>(value)));
    case Kind::rate: return digits_of_real(std::get<double>(value));
    case Kind::seed: return seed_text(std::get<Seed>(value));
    case Kind::addresses: {
      std::string text;
      for (const std::string& address : std::get<std::vector<std::string>>(value)) {
        text += (text.empty() ? "" : ", ") + toml_string(address);
      }
      return '[' + text + ']';
    }
    case Kind::text:
    case Kind::choice: break;
  }
  return toml_string(std::get<std::string>(value));
}

std::string shown_text(const Setting& setting, const Value& value) {
  // An empty secret is shown: it says that no password is set.
  const bool hidden = setting.secret && !std::get<std::string>(value).empty();
  return hidden ? "(hidden)" : toml_text(setting, value);
}

}  // namespace sepal::settings
