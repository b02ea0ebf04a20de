// CONFIG uses the rows of the file and the flags, and so their ranges. But it reads and writes a value in its
// own way: clients expect the error texts of the reference, choices in any case, and numbers without units.
#include <sepal/base/arguments.hpp>
#include <sepal/base/assert.hpp>
#include <sepal/settings/configuration.hpp>

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <utility>

#include "settings/quantity.hpp"
#include "settings/setting.hpp"
#include "settings/value_text.hpp"

namespace sepal::settings {
namespace {

// The text that the reference answers to a word that is no value of this kind.
std::string wrong_kind(const Setting& setting) {
  switch (setting.kind) {
    case Kind::count:
    case Kind::seconds: return "argument couldn't be parsed into an integer";
    case Kind::bytes: return "argument must be a memory value";
    case Kind::rate: return "argument must be between 0 and 1 exclusive";
    case Kind::choice: {
      std::string text = "argument(s) must be one of the following: ";
      for (const std::string_view choice : setting.choices)
        text.append(choice == setting.choices.front() ? "" : ", ").append(choice);
      return text;
    }
    default:
      if (setting.secret)
        return "argument must be no longer than what a client may send before it is authenticated";
      return "argument " + allowed_text(setting);
  }
}

// Whole numbers without a unit are read as strictly as the reference reads them. A number below zero becomes
// a huge one here, and both are out of every range.
std::optional<std::uint64_t> number_of(const Setting& setting, std::string_view text) {
  if (setting.kind == Kind::bytes) return parse_bytes_of(setting, text);
  if (const auto number = parse_integer(text)) return static_cast<std::uint64_t>(*number);
  const bool has_unit = !text.empty() && (text.back() < '0' || text.back() > '9');
  return setting.kind == Kind::seconds && has_unit ? parse_seconds(text) : std::nullopt;
}

Result<Value> parse_numeric(const Setting& setting, std::string_view text) {
  const auto number = number_of(setting, text);
  if (!number) return fail(Errc::invalid_setting, wrong_kind(setting));
  if (auto value = check_range(setting, *number)) return value;
  return fail(Errc::invalid_setting, "argument must be between " + std::to_string(setting.range.min) +
                                         " and " + std::to_string(setting.range.max) + " inclusive");
}

// Errors: invalid_setting, with the text for the client.
Result<Value> parse_parameter(const Setting& setting, std::string_view text) {
  std::optional<Value> value;
  switch (setting.kind) {
    case Kind::count:
    case Kind::bytes:
    case Kind::seconds: return parse_numeric(setting, text);
    case Kind::rate:
      if (const auto rate = parse_real(text)) value = *rate;
      break;
    case Kind::choice: {
      // The file takes small letters only, the reference any.
      for (const std::string_view choice : setting.choices)
        if (equal_ignoring_case(choice, text)) value = std::string(choice);
      break;
    }
    default:
      if (auto parsed = parse_value(setting, text)) value = std::move(*parsed);
  }
  if (value)
    if (auto checked = check_range(setting, std::move(*value))) return checked;
  return fail(Errc::invalid_setting, wrong_kind(setting));
}

// The value as CONFIG GET answers it.
std::string plain_text(const Setting& setting, const Value& value) {
  if (setting.kind == Kind::permissions) {
    std::array<char, 16> digits{};  // a range of at most 0777 has three
    const auto written = std::to_chars(digits.begin(), digits.end(), std::get<std::uint64_t>(value), 8);
    return {digits.begin(), written.ptr};
  }
  if (const auto* const number = std::get_if<std::uint64_t>(&value)) return std::to_string(*number);
  if (const auto* const text = std::get_if<std::string>(&value)) return *text;
  const auto* const addresses = std::get_if<std::vector<std::string>>(&value);
  if (addresses == nullptr) return toml_text(setting, value);
  std::string all;
  for (const std::string& address : *addresses) all.append(all.empty() ? "" : " ").append(address);
  return all;
}

}  // namespace

// A copy of all settings. CONFIG SET changes the copy, and gives it up at the first wrong value. So a request
// with several parameters changes all of them or none.
class Configuration::Draft final : public command::Configuration::Draft {
 public:
  explicit Draft(Configuration& original) : original_(original), settings_(original.settings_) {}

  command::RuntimeOptions& options() override { return settings_.runtime; }

  std::string set(std::string_view name, std::string_view value) override {
    const auto row = original_.rows_.find(name);
    SEPAL_ASSERT(row != original_.rows_.end() && row->second->config == InConfig::live,
                 "CONFIG sets what is no parameter, or what cannot be changed");
    const Setting& setting = *row->second;
    const auto parsed = parse_parameter(setting, value);
    if (!parsed) return parsed.error().detail;
    setting.set(settings_, *parsed);
    // The certificate, its key and its CA belong together, so any of them has all files read.
    sets_tls_ = sets_tls_ || setting.group == "TLS";
    return {};
  }

  // The files of TLS also if all values are the old ones: they may have changed.
  std::string prepare() override {
    if (auto fits = check_cuckoo(settings_.keyspace); !fits) return fits.error().detail;
    if (!sets_tls_) return {};
    auto adopt = original_.observer_.read_tls(settings_.tls);
    if (!adopt) return adopt.error().detail;
    adopt_tls_ = std::move(*adopt);
    return {};
  }

  // Other threads read the other members without the gate, so those stay untouched.
  void apply() override {
    original_.settings_.runtime = std::move(settings_.runtime);
    original_.settings_.keyspace = settings_.keyspace;
    original_.settings_.tls = std::move(settings_.tls);
    // prepare() has read the files, so nothing can fail here.
    if (adopt_tls_) adopt_tls_();
    // Last: the observer reads the settings as they are from here on.
    original_.observer_.changed();
  }

 private:
  Configuration& original_;
  Settings settings_;
  bool sets_tls_ = false;
  Adopt adopt_tls_;
};

Configuration::Configuration(Settings& settings, Observer observer)
    : settings_(settings), observer_(std::move(observer)) {
  for (const Setting& setting : all_settings())
    if (setting.config != InConfig::hidden) {
      const bool is_new = rows_.emplace(setting.parameter_name(), &setting).second;
      SEPAL_ASSERT(is_new, "two settings are one parameter of CONFIG");
    }
}

std::vector<command::Configuration::Parameter> Configuration::parameters() const {
  std::vector<Parameter> all;
  for (const auto& [name, setting] : rows_)
    all.push_back({.name = name, .live = setting->config == InConfig::live});
  return all;
}

std::string Configuration::get(std::string_view name) const {
  const auto row = rows_.find(name);
  SEPAL_ASSERT(row != rows_.end(), "CONFIG shows what is no parameter");
  const Setting& setting = *row->second;
  return plain_text(setting, setting.get(settings_));
}

std::unique_ptr<command::Configuration::Draft> Configuration::draft() {
  return std::make_unique<Draft>(*this);
}

}  // namespace sepal::settings
