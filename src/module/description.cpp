#include "module/description.hpp"

#include <sepal/base/syntax.hpp>
#include <sepal/base/word_list.hpp>

#include <algorithm>
#include <deque>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

namespace sepal::module {
namespace {

constexpr const char* category_names[] = {"bloom", "cuckoo"};

const char* text_or_null(std::string_view text) {
  return text.empty() ? nullptr : text.data();
}

ArgumentType type_of(std::string_view name) {
  constexpr std::pair<std::string_view, ArgumentType> types[] = {
      {"string", ArgumentType::string},   {"integer", ArgumentType::integer},
      {"double", ArgumentType::real},     {"key", ArgumentType::key},
      {"pattern", ArgumentType::pattern}, {"unix-time", ArgumentType::unix_time},
      {"oneof", ArgumentType::one_of},    {"pure-token", ArgumentType::pure_token},
      {"block", ArgumentType::block}};
  const auto* const found = std::ranges::find(types, name, &std::pair<std::string_view, ArgumentType>::first);
  return found != std::end(types) ? found->second : ArgumentType::string;
}

// Arguments as the server takes them. It copies them.
class ServerArguments {
 public:
  const ArgumentInfo* add(const std::vector<SyntaxArgument>& arguments) {
    if (arguments.empty()) return nullptr;
    std::vector<ArgumentInfo>& level = levels_.emplace_back();
    for (const SyntaxArgument& argument : arguments) {
      ArgumentInfo info;
      info.name = text(argument.name);
      info.display_text = info.name;
      info.type = type_of(argument.type);
      if (info.type == ArgumentType::key) info.key_spec_index = 0;  // all keys of a command are alike
      if (!argument.token.empty()) info.token = text(argument.token);
      if (argument.optional) info.flags |= ArgumentInfo::optional;
      if (argument.repeated) info.flags |= ArgumentInfo::repeated;
      info.inner = add(argument.arguments);
      level.push_back(info);
    }
    level.emplace_back();  // the end
    return level.data();
  }

 private:
  const char* text(const std::string& text) { return texts_.emplace_back(text).c_str(); }

  // Deques, because the server's structs point at their elements, and add() refers to a level, while more are
  // added.
  std::deque<std::string> texts_;
  std::deque<std::vector<ArgumentInfo>> levels_;
};

// A user may have the right only to read or only to write a key (%R~, %W~). For that, the server must know
// what the command does with the key.
KeySpec key_of(const CommandFacts& facts) {
  KeySpec key;
  key.flags = facts.writes ? KeySpec::changes | KeySpec::inserts : KeySpec::reads | KeySpec::gives;
  key.begin_search = KeySpec::by_index;
  if (facts.key_count_at != 0) {
    key.begin.position = facts.key_count_at;
    key.find_keys = KeySpec::by_number;
    key.number = {.number_at = 0, .first_key = 1, .key_step = 1};
  } else {
    key.begin.position = 1;
    key.find_keys = KeySpec::by_range;
    key.range = {.last_key = 0, .key_step = 1, .limit = 0};
  }
  return key;
}

// "@write @bloom" is "write bloom" for the server. Redis 7.2 has no place for a category of a module.
std::string categories_of(const CommandFacts& facts) {
  std::string names;
  for_each_word(facts.categories, [&](std::string_view name) {
    name.remove_prefix(1);  // '@'
    const bool is_ours = std::ranges::find(category_names, name) != std::end(category_names);
    if (is_ours && api.AddACLCategory == nullptr) return;
    names.append(names.empty() ? "" : " ").append(name);
  });
  return names;
}

}  // namespace

bool create_categories(RedisModuleCtx* context) {
  return api.AddACLCategory == nullptr || std::ranges::all_of(category_names, [&](const char* name) {
           return api.AddACLCategory(context, name) == status_ok;
         });
}

bool describe(RedisModuleCtx* context, const CommandFacts& facts) {
  if (api.SetCommandInfo == nullptr || api.GetCommand == nullptr) return true;
  // The server steps through our arrays by these sizes. An entry of a history is two pointers; we give none.
  static constexpr CommandInfoVersion version{.version = 1,
                                              .history_entry_bytes = 2 * sizeof(void*),
                                              .key_spec_bytes = sizeof(KeySpec),
                                              .argument_bytes = sizeof(ArgumentInfo)};
  const KeySpec keys[] = {key_of(facts), KeySpec()};
  ServerArguments arguments;
  const CommandInfo info{.version = &version,
                         .summary = text_or_null(facts.summary),
                         .complexity = text_or_null(facts.complexity),
                         .since = text_or_null(facts.since),
                         .history = nullptr,
                         .tips = text_or_null(facts.tips),
                         .arity = facts.arity,
                         .key_specs = keys,
                         .arguments = arguments.add(parse_syntax(facts.syntax))};
  RedisModuleCommand* const command = api.GetCommand(context, facts.name.data());
  if (api.SetCommandInfo(command, &info) != status_ok) return false;
  return api.SetCommandACLCategories == nullptr ||
         api.SetCommandACLCategories(command, categories_of(facts).c_str()) == status_ok;
}

}  // namespace sepal::module
