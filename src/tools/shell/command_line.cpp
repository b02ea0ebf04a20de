#include "tools/shell/command_line.hpp"

#include <sepal/base/nearest_name.hpp>

#include <algorithm>
#include <cstdio>
#include <iterator>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

namespace sepal::tools {
namespace {

// Takes the text of a value. Returns what is wrong with it; empty: nothing is.
using Take = std::function<std::string(const std::string&)>;

CLI::Option* add_value(CLI::App& command, const std::string& name, const std::string& help, Take take) {
  // Errors name the long flag: "--output" of "-o,--output".
  const std::size_t long_name = name.find("--");
  const auto read = [flag = name.substr(long_name), take = std::move(take)](const std::string& text) {
    const std::string wrong = take(text);
    if (!wrong.empty()) throw CLI::ValidationError(flag + " " + text, wrong);
  };
  return command.add_option_function<std::string>(name, read, help)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
}

std::string range_text(CountRange range) {
  return "must be a whole number between " + std::to_string(range.lowest) + " and " +
         std::to_string(range.highest);
}

Take take_in_range(CountRange range, const std::string& examples, TakeCount take) {
  return [=, take = std::move(take)](const std::string& text) -> std::string {
    const auto count = parse_count(text);
    if (!count || *count < range.lowest || *count > range.highest) return range_text(range) + examples;
    take(*count);
    return "";
  };
}

bool is_flag(const std::string& word) {
  return word.size() > 1 && word.starts_with('-');
}

// Ends the flags of a line. CLI11 keeps it among the words that are left over.
constexpr std::string_view flags_end = "--";

std::string suggestion(const std::string& meant) {
  return "; did you mean '" + meant + "'?";
}

// The flag of `app` that was probably meant; empty if none is near.
std::string nearest_flag(const CLI::App& app, const std::string& flag) {
  NearestName nearest(flag.substr(std::min(flag.find_first_not_of('-'), flag.size())));
  std::string meant;
  for (const CLI::Option* option : app.get_options())
    for (const std::string& name : option->get_lnames())
      if (nearest.is_nearer(name)) meant = "--" + name;
  return meant;
}

std::string unknown_flag(const CLI::App& app, const std::string& help, const std::string& word) {
  const std::string flag = word.substr(0, word.find('='));
  const std::string meant = nearest_flag(app, flag);
  return "unknown flag '" + flag + "'" +
         (meant.empty() ? "; " + help + " lists all flags" : suggestion(meant));
}

std::string help_of(const CLI::App* command) {
  return command == nullptr ? "--help" : "sepal " + command->get_name() + " --help";
}

// Puts the library's sentence into the words of this program's other errors. A sentence that is not
// recognised is shown as it is.
std::string mistake_text(const CLI::ParseError& error, const CLI::App* command) {
  std::string text = error.what();
  if (const std::size_t end = text.find(" was given a disallowed flag override"); end != std::string::npos)
    return "--" + text.substr(0, end) + " takes no value";
  if (dynamic_cast<const CLI::ArgumentMismatch*>(&error) != nullptr)
    return text.substr(0, text.find(':')) + " needs a value";
  if (dynamic_cast<const CLI::RequiredError*>(&error) != nullptr)
    return text.substr(0, text.find(' ')) + " is missing; " + help_of(command) + " tells more";
  return text;
}

}  // namespace

CommandLine::CommandLine(const std::string& description, const std::string& version)
    : version_(version), tools_(description, "sepal") {
  tools_.set_version_flag("--version", version);
  // --quiet=5 is an error. The commands inherit this and the next setting.
  tools_.option_defaults()->disable_flag_override();
  // run() reports words that are left over.
  tools_.allow_extras();
  tools_.require_subcommand(0, 1);
}

CLI::App& CommandLine::add_command(const std::string& name, const std::string& description,
                                   std::function<int()> work) {
  CLI::App& command = *tools_.add_subcommand(name, description);
  // CLI11 calls this during parse(), before unknown words are looked for. So the work is only noted, and
  // run() begins it.
  command.callback([this, work = std::move(work)] { work_ = work; });
  return command;
}

const CLI::App* CommandLine::command() const {
  const auto commands = tools_.get_subcommands();
  return commands.empty() ? nullptr : commands.front();
}

std::string CommandLine::command_names() const {
  std::string names;
  for (const CLI::App* command : tools_.get_subcommands({}))
    names += (names.empty() ? "" : ", ") + command->get_name();
  return "there are " + names + "; --help tells more";
}

std::string CommandLine::unknown_command(const std::string& word) const {
  NearestName nearest(word);
  std::string meant;
  for (const CLI::App* command : tools_.get_subcommands({}))
    if (nearest.is_nearer(command->get_name())) meant = command->get_name();
  return "unknown command '" + word + "'" + (meant.empty() ? "; " + command_names() : suggestion(meant));
}

void CommandLine::add_own_commands() {
  const auto name = std::make_shared<std::string>();
  add_command("help", "Prints this help, or that of a command", [this, name] { return print_help(*name); })
      .add_option("COMMAND", *name, "The command; all if not given")
      ->type_name("");
  add_command("version", "Prints the version", [this] {
    std::puts(version_.c_str());
    return exit_good;
  });
}

int CommandLine::print_help(const std::string& name) {
  const CLI::App* asked = name.empty() ? &tools_ : nullptr;
  for (const CLI::App* command : tools_.get_subcommands({}))
    if (command->get_name() == name) asked = command;
  if (asked == nullptr) {
    std::fprintf(stderr, "sepal help: %s\n", unknown_command(name).c_str());
    return exit_usage;
  }
  // Else the help of all would be that of the command that the line names, which is this one.
  tools_.clear();
  std::fputs(asked->help(name.empty() ? "" : tools_.get_name()).c_str(), stdout);
  return exit_good;
}

std::string CommandLine::unknown_word() const {
  if (const auto words = tools_.remaining(); !words.empty()) {
    const std::string& word = words.front();
    return is_flag(word) ? unknown_flag(tools_, "--help", word) : unknown_command(word);
  }
  if (command() == nullptr) return "";
  auto words = command()->remaining();
  const auto end = std::find(words.begin(), words.end(), flags_end);
  // A flag is reported before a plain word: the word may be the value of the misspelt flag.
  const auto flag = std::find_if(words.begin(), end, is_flag);
  if (flag != end) return unknown_flag(*command(), help_of(command()), *flag);
  if (end != words.end()) words.erase(end);
  return words.empty() ? ""
                       : "unexpected argument '" + words.front() + "'; " + help_of(command()) + " tells more";
}

int CommandLine::run(int argc, char** argv) {
  add_own_commands();
  // CLI11 reads this list of words from its back. It would take the command behind "--" for a plain word.
  std::vector<std::string> words(std::reverse_iterator(argv + argc),
                                 std::reverse_iterator(argv + std::min(argc, 1)));
  if (!words.empty() && words.back() == flags_end) words.pop_back();
  std::string wrong;
  try {
    tools_.parse(std::move(words));
  } catch (const CLI::Success& asked) {
    // The user asked for the help or the version.
    return tools_.exit(asked);
  } catch (const CLI::ParseError& error) {
    wrong = mistake_text(error, command());
  }
  // A misspelt flag may be the reason for a missing value, so it is reported instead.
  if (const std::string unknown = unknown_word(); !unknown.empty()) wrong = unknown;
  if (wrong.empty() && command() == nullptr) wrong = "a command is missing; " + command_names();
  if (wrong.empty()) return work_();
  const bool is_before_command = command() == nullptr || !tools_.remaining().empty();
  std::fprintf(stderr, "sepal%s: %s\n", is_before_command ? "" : (" " + command()->get_name()).c_str(),
               wrong.c_str());
  return exit_usage;
}

CLI::Option* add_count(CLI::App& command, const std::string& name, const std::string& help, TakeCount take) {
  constexpr const char* examples = "as in 100000000, 100m or 1e8";
  command.footer(std::string("COUNT is a whole number, ") + examples +
                 ": k is a thousand, m a million, g a thousand millions.");
  return add_value(command, name, help,
                   take_in_range({.lowest = 1}, std::string(", ") + examples, std::move(take)))
      ->type_name("COUNT");
}

CLI::Option* add_number(CLI::App& command, const std::string& name, const std::string& help, CountRange range,
                        TakeCount take) {
  return add_value(command, name, help, take_in_range(range, "", std::move(take)))->type_name("NUMBER");
}

CLI::Option* add_seed(CLI::App& command, const std::string& name, const std::string& help, TakeCount take) {
  const auto read = [take = std::move(take)](const std::string& text) -> std::string {
    const auto seed = parse_bits(text);
    if (!seed) return range_text({});
    take(*seed);
    return "";
  };
  return add_value(command, name, help, read)->type_name("NUMBER");
}

CLI::Option* add_rate(CLI::App& command, const std::string& name, const std::string& help, double& rate) {
  const auto read = [&rate](const std::string& text) -> std::string {
    const auto read_rate = parse_rate(text);
    if (!read_rate) return "must be a number above 0 and below 1";
    rate = *read_rate;
    return "";
  };
  return add_value(command, name, help, read)->type_name("RATE");
}

CLI::Option* add_duration(CLI::App& command, const std::string& name, const std::string& help,
                          TakeCount take) {
  const auto read = [take = std::move(take)](const std::string& text) -> std::string {
    const auto milliseconds = parse_duration(text);
    if (!milliseconds) return "must be a time, as in 90s, 15m, 1h or 7d";
    take(*milliseconds);
    return "";
  };
  return add_value(command, name, help, read)->type_name("TIME");
}

CLI::Option* add_pace(CLI::App& command, const std::string& name, const std::string& help,
                      std::function<void(Pace)> take) {
  const auto read = [take = std::move(take)](const std::string& text) -> std::string {
    const auto pace = parse_pace(text);
    if (!pace) return "must be a count and a time, as in 20000/s or 5m/d";
    take(*pace);
    return "";
  };
  return add_value(command, name, help, read)->type_name("COUNT/TIME");
}

CLI::Option* add_choice(CLI::App& command, const std::string& name, const std::string& help,
                        std::vector<std::string> choices, std::function<void(std::size_t)> take) {
  std::string type;
  std::string all;
  for (std::size_t i = 0; i < choices.size(); ++i) {
    type += (i == 0 ? "" : "|") + choices[i];
    all += (i == 0 ? "" : i + 1 == choices.size() ? " or " : ", ") + choices[i];
  }
  const auto read = [=](const std::string& text) -> std::string {
    NearestName nearest(text);
    std::string meant;
    for (std::size_t i = 0; i < choices.size(); ++i) {
      if (choices[i] == text) {
        take(i);
        return "";
      }
      if (nearest.is_nearer(choices[i])) meant = choices[i];
    }
    return "must be " + all + (meant.empty() ? "" : suggestion(meant));
  };
  return add_value(command, name, help, read)->type_name(type);
}

CLI::Option* add_text(CLI::App& command, const std::string& name, const std::string& help,
                      std::size_t length_max, TakeText take) {
  const auto read = [=, take = std::move(take)](const std::string& text) {
    // The text is too long to be shown.
    if (text.size() > length_max)
      throw CLI::ValidationError(name, "must be at most " + std::to_string(length_max) + " bytes long");
    take(text);
  };
  return command.add_option_function<std::string>(name, read, help)
      ->type_name("TEXT")
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
}

}  // namespace sepal::tools
