// Flags, on CLI11. The library only splits the words. The table of settings checks the values, as it checks
// those of a file, so both give the same errors. The library's exceptions end here.
#include <sepal/resp/request_parser.hpp>
#include <sepal/settings/password.hpp>
#include <sepal/settings/settings.hpp>

#include <CLI/CLI.hpp>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "settings/config_file.hpp"
#include "settings/suggestion.hpp"
#include "settings/value_text.hpp"

namespace sepal::settings {
namespace {

// The settings that say where sepald listens.
constexpr std::array<std::string_view, 3> address_settings{"bind", "port", "unixsocket"};

// Flags that are not settings.
struct Requests {
  std::string config_file;
  bool check_config = false;
  bool check_health = false;
  bool version = false;
  bool help = false;
};

struct FlagValue {
  const Setting* setting = nullptr;
  CLI::Option* option = nullptr;
  std::string text;
};

struct CommandLine {
  CLI::App app{"A Bloom filter server that speaks the Redis protocol.", "sepald"};
  Requests requests;
  CLI::Option* config_option = nullptr;
  std::vector<FlagValue> flags;  // Never resized after add_settings(): the options refer to its elements.
};

std::string kind_text(const Setting& setting) {
  switch (setting.kind) {
    case Kind::bytes: return "SIZE";
    case Kind::seconds: return "TIME";
    case Kind::permissions: return "OCTAL";
    case Kind::addresses: return "ADDRESS...";
    case Kind::choice: {
      std::string text;
      for (const std::string_view choice : setting.choices)
        text += (text.empty() ? "" : "|") + std::string(choice);
      return text;
    }
    case Kind::text:
      if (!setting.is_path) return "TEXT";
      return setting.key.ends_with("dir") ? "DIR" : "PATH";
    default: return "NUMBER";
  }
}

void add_requests(CommandLine& line) {
  // CLI11's own help flag has the same names, and ends the parse by an exception.
  line.app.set_help_flag("");
  line.app.add_flag("-h,--help", line.requests.help, "print this help and exit");
  line.app.add_flag("-v,--version", line.requests.version, "print the version and exit");
  line.config_option = line.app
                           .add_option("--config", line.requests.config_file,
                                       "configuration file; a flag overrides what it says")
                           ->type_name("FILE")
                           ->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  line.app.add_flag(
      "--check-config", line.requests.check_config,
      "check the settings and the files that they name, print what differs from the defaults, and exit");
  line.app.add_flag("--healthcheck", line.requests.check_health,
                    "ask the sepald that runs with these settings whether it is alive and loaded, and exit "
                    "with 0 (yes), 1 (no) or 2 (the settings are wrong)");
}

// If a flag is given twice, the last one counts. So a user can override the flags of a container or a script.
void add_settings(CommandLine& line) {
  const Settings defaults;
  line.flags.resize(all_settings().size());
  for (std::size_t i = 0; i < line.flags.size(); ++i) {
    FlagValue& flag = line.flags[i];
    flag.setting = &all_settings()[i];
    const Setting& setting = *flag.setting;
    const std::string help =
        std::string(setting.help) + " (default " + toml_text(setting, setting.get(defaults)) + ")";
    flag.option = line.app.add_option(setting.flag(), flag.text, help)
                      ->type_name(kind_text(setting))
                      ->group(std::string(setting.group))
                      ->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  }
  line.app.footer(
      "Each setting is also a line of the configuration file, with underscores for dashes: save_interval = "
      "\"5m\".\n"
      "SIZE is bytes, or with a unit as in 64mb or 4GiB (k is 1000, kb and KiB 1024). Where it is memory, it "
      "may be a share of what the machine or container has, as in 50%.\n"
      "TIME is seconds, or as in 5m, 1h, 2d.\n"
      "If a flag is given twice, the last one counts.");
}

Error refuse(std::string what) {
  return fail(Errc::invalid_setting, std::move(what));
}

Error unexpected(const std::string& word, bool may_be_flag) {
  if (!may_be_flag || !word.starts_with('-')) {
    return refuse("unexpected argument '" + word + "'; a configuration file is given by --config");
  }
  const std::string name = word.substr(0, word.find('='));
  const std::size_t letters = name.find_first_not_of('-');
  const Setting* meant = letters == std::string::npos ? nullptr : nearest_setting(name.substr(letters));
  const std::string advice =
      meant == nullptr ? "; --help lists all flags" : "; did you mean '" + meant->flag() + "'?";
  return refuse("unknown flag '" + name + "'" + advice);
}

// `words` are left over, among them "--", behind which no word is a flag.
Result<void> check_left_over(const std::vector<std::string>& words) {
  bool may_be_flag = true;
  for (const std::string& word : words) {
    if (!may_be_flag || word != "--") return unexpected(word, may_be_flag);
    may_be_flag = false;
  }
  return {};
}

// A word like --port or --port=1, if there is such a flag.
const CLI::Option* flag_of(const CommandLine& line, std::string_view word) {
  return word.starts_with("--") ? line.app.get_option_no_throw(std::string(word.substr(0, word.find('='))))
                                : nullptr;
}

// CLI11 takes the word behind a flag as its value, whatever it is, also behind "--flag=", and would then
// blame the words behind that. A flag is no value. A password may begin with "--" if no flag has that name.
Result<void> check_values(const CommandLine& line, std::span<const std::string> arguments) {
  for (std::size_t i = 0; i + 1 < arguments.size(); ++i) {
    const std::string& word = arguments[i];
    const CLI::Option* option = flag_of(line, word);
    if (option == nullptr || option->get_expected_max() == 0) continue;
    if (word.ends_with('=') && word.find('=') == word.size() - 1)
      return refuse(word + " has no value; an empty one is given as " + word.substr(0, word.size() - 1) +
                    " \"\"");
    if (word.find('=') != std::string::npos) continue;
    const std::string& value = arguments[++i];
    const bool secret = std::ranges::any_of(line.flags, [option](const FlagValue& flag) {
      return flag.option == option && flag.setting->secret;
    });
    if (flag_of(line, value) != nullptr || (value.starts_with("--") && !secret))
      return refuse(word + " needs a value, and " + (secret ? "a flag" : value.substr(0, value.find('='))) +
                    " follows it" +
                    (secret ? "; a password that looks like one is given as " + word + "=..." : ""));
  }
  return {};
}

Result<void> take_apart(CommandLine& line, std::span<const std::string> arguments) {
  if (auto checked = check_values(line, arguments); !checked) return checked;
  // Unknown words are kept, so that unexpected() can say what was probably meant.
  line.app.allow_extras();
  // CLI11 reads this list of words from its back.
  std::vector<std::string> reversed(arguments.rbegin(), arguments.rend());
  try {
    line.app.parse(std::move(reversed));
  } catch (const CLI::ArgumentMismatch& problem) {
    const std::string text = problem.what();
    return refuse(text.substr(0, text.find(':')) + " needs a value");
  } catch (const CLI::ParseError& problem) {
    return refuse(problem.what());
  }
  return {};
}

Result<void> apply_file(const std::string& path, Settings& settings) {
  const auto text = read_config_text(path);
  if (!text) return refuse(text.error().detail);
  if (text->find_first_not_of(" \t\r\n") == std::string::npos) return refuse(path + ": is empty");
  const auto parsed = parse_config(*text, path);
  if (!parsed) return parsed.error();
  apply(*parsed, settings);
  settings.config_file = path;
  return {};
}

Result<void> apply_flags(const std::vector<FlagValue>& flags, Settings& settings) {
  for (const FlagValue& flag : flags) {
    if (flag.option->count() == 0) continue;
    const auto value = parse_value(*flag.setting, flag.text);
    if (!value) {
      // The error is printed, and may land in a log. So it hides a password.
      const std::string shown = flag.setting->secret ? "(hidden)" : flag.text;
      return refuse(flag.setting->flag() + " " + shown + ": " + value.error().detail);
    }
    flag.setting->set(settings, *value);
    if (std::ranges::find(address_settings, flag.setting->key) != address_settings.end())
      settings.address_is_flag = true;
    if (flag.setting->key == "dir") settings.directory_is_flag = true;
  }
  return {};
}

// A password in the file or the flags, a password file, or the environment, in this order. The first two
// contradict each other if both are set. The environment may be set for all programs of a container, so it
// contradicts nothing and comes last. An empty variable is as good as none: compose files leave it empty.
Result<void> take_password(Settings& settings) {
  const bool is_set = !settings.runtime.password.empty();
  if (!settings.password_file.empty()) {
    if (is_set) return refuse("requirepass and requirepass_file are both set: set one of them");
    auto password = read_password_file(settings.password_file);
    if (!password) return password.error();
    settings.runtime.password = std::move(*password);
    // No other thread runs yet, and nothing changes the environment.
    // NOLINTNEXTLINE(concurrency-mt-unsafe)
  } else if (const char* const variable = is_set ? nullptr : std::getenv(password_variable);
             variable != nullptr && *variable != '\0') {
    settings.runtime.password = variable;
    if (settings.runtime.password.size() > resp::unauthenticated_bulk_bytes_max)
      return refuse(std::string(password_variable) + " is longer than " +
                    std::to_string(resp::unauthenticated_bulk_bytes_max) + " bytes");
  } else {
    return {};
  }
  settings.password_is_elsewhere = true;
  return {};
}

Result<Settings> read_settings(const CommandLine& line) {
  Settings settings;
  if (line.config_option->count() > 0) {
    if (const auto applied = apply_file(line.requests.config_file, settings); !applied)
      return applied.error();
  }
  if (const auto applied = apply_flags(line.flags, settings); !applied) return applied.error();
  if (const auto completed = complete(settings); !completed) return completed.error();
  // Last: a wrong setting stays wrong, and the file may be there at the next start.
  if (const auto taken = take_password(settings); !taken) return taken.error();
  return settings;
}

Invocation print(std::string text) {
  return {.action = Invocation::Action::print_and_exit, .settings = {}, .text = std::move(text)};
}

std::string check_report(const Settings& settings) {
  std::string text = "configuration ok\n";
  for (const std::string& difference : differences_from_defaults(settings)) text += difference + "\n";
  return text;
}

}  // namespace

Result<Invocation> read_invocation(std::span<const std::string> arguments, std::string_view version) {
  CommandLine line;
  add_requests(line);
  add_settings(line);
  // As for sepal.
  if (arguments.size() == 1 && arguments[0] == "help") return print(line.app.help());
  if (arguments.size() == 1 && arguments[0] == "version") return print(std::string(version) + "\n");
  if (const auto apart = take_apart(line, arguments); !apart) return apart.error();
  if (const auto checked = check_left_over(line.app.remaining()); !checked) return checked.error();
  // Before the settings are read: help and the version need no right configuration.
  if (line.requests.help) return print(line.app.help());
  if (line.requests.version) return print(std::string(version) + "\n");
  auto settings = read_settings(line);
  if (!settings) return settings.error();
  Invocation invocation;
  invocation.settings = std::move(*settings);
  if (line.requests.check_health) {
    invocation.action = Invocation::Action::check_health;
  } else if (line.requests.check_config) {
    invocation.action = Invocation::Action::check_config;
    invocation.text = check_report(invocation.settings);
  }
  return invocation;
}

std::vector<std::string> differences_from_defaults(const Settings& settings) {
  const Settings defaults;
  std::vector<std::string> lines;
  for (const Setting& setting : all_settings()) {
    const Value value = setting.get(settings);
    const Value usual = setting.get(defaults);
    if (value == usual) continue;
    lines.push_back(std::string(setting.key) + " = " + shown_text(setting, value) + " (default " +
                    shown_text(setting, usual) + ")");
  }
  return lines;
}

}  // namespace sepal::settings
