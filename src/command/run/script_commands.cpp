// Handlers of EVAL and its relatives, and of SCRIPT.

#include <sepal/base/arguments.hpp>
#include <sepal/base/digest.hpp>
#include <sepal/command/run/dispatcher.hpp>
#include <sepal/command/run/scripts.hpp>
#include <sepal/command/table/error_texts.hpp>

#include <memory>
#include <string>
#include <utility>

#include "command/run/refuse.hpp"
#include "command/run/script_runner.hpp"
#include "command/table/command_row.hpp"
#include "command/table/families.hpp"

namespace sepal::command {
namespace {

// The words of EVAL: name, script or its digest, number of keys, keys, arguments.
constexpr std::size_t key_count_at = 2;

// Where the arguments behind the keys begin; 0: `error` says why there is no such place.
struct Split {
  std::size_t arguments_at = 0;
  std::string_view error{};
};
Split split(std::span<const std::string_view> words) {
  if (byte_count_of(words) > script_words_bytes_max) return {.error = text::script_words_too_long};
  // The arity of each row guarantees that the word is there.
  const auto count = parse_integer(words[key_count_at]);
  if (!count) return {.error = text::not_an_integer};
  const std::size_t first = key_count_at + 1;
  if (*count > static_cast<std::int64_t>(words.size() - first)) return {.error = text::many_keys};
  if (*count < 0) return {.error = text::negative_key_count};
  return {.arguments_at = first + static_cast<std::size_t>(*count)};
}

// Clients send digests in lower case, as SCRIPT LOAD answers them, but they may send them in any case. A
// digest is looked up as it came before it is copied (decisions/0025), and other lengths are never copied.
std::shared_ptr<const script::Source> find_script(script::Library& library, std::string_view digest) {
  if (digest.size() != script::sha_digits) return nullptr;
  auto source = library.use(digest);
  return source != nullptr ? source : library.use(lower_case(digest));
}

Next run_script(Context& context, const std::shared_ptr<const script::Source>& source,
                std::size_t arguments_at) {
  const std::size_t first = key_count_at + 1;
  return context.dispatcher.scripts().eval(context, source,
                                           {.keys = context.words.subspan(first, arguments_at - first),
                                            .others = context.words.subspan(arguments_at),
                                            .read_only = context.spec.flags.has(Flag::read_only)});
}

// A script that the library did not know. The error is that of SCRIPT LOAD and of EVAL.
struct Learned {
  std::shared_ptr<const script::Source> source;
  std::string error;
};
Learned learn(Context& context, std::string_view text, bool passing) {
  Scripts& scripts = *context.services.scripts;
  const std::uint64_t bytes_max = script_text_max(context.services.options.script_memory_max);
  // Before the text is copied.
  if (text.size() > bytes_max) return {.source = nullptr, .error = std::string(text::script_too_long)};
  script::ParsedSource parsed = script::parse_source(text);
  if (parsed.source == nullptr) return {.source = nullptr, .error = "ERR " + parsed.error};
  // Compiled before it is added: the library keeps no text that cannot run. Each other worker compiles the
  // script when it first runs it.
  std::string error = context.dispatcher.scripts().compile(parsed.source);
  if (!error.empty()) return {.source = nullptr, .error = std::move(error)};
  // EVAL runs a script without room as well; EVALSHA does not find it then.
  if (!scripts.library.add(parsed.source, passing, bytes_max)) {
    if (!std::exchange(scripts.told_full, true)) context.services.control.log_scripts_full(bytes_max);
    if (!passing) return {.source = nullptr, .error = std::string(text::scripts_full)};
  }
  return {.source = std::move(parsed.source), .error = {}};
}

// EVAL, EVAL_RO
Next eval(Context& context) {
  const Split words = split(context.words);
  if (!words.error.empty()) return refuse(context, words.error);
  // The digest is the name of a script, so a text that came before is not compiled again.
  const std::string_view text = context.words[1];
  std::shared_ptr<const script::Source> source = context.services.scripts->library.use(sha1_hex(text));
  if (source == nullptr) {
    Learned learned = learn(context, text, true);
    if (learned.source == nullptr) return refuse(context, learned.error);
    source = std::move(learned.source);
  }
  return run_script(context, source, words.arguments_at);
}

// EVALSHA, EVALSHA_RO
Next eval_by_digest(Context& context) {
  const Split words = split(context.words);
  if (!words.error.empty()) return refuse(context, words.error);
  const auto source = find_script(context.services.scripts->library, context.words[1]);
  if (source == nullptr) return refuse(context, text::unknown_script);
  return run_script(context, source, words.arguments_at);
}

Next script_load(Context& context) {
  if (byte_count_of(context.words) > script_words_bytes_max)
    return refuse(context, text::script_words_too_long);
  const std::string_view text = context.words[2];
  const std::string digest = sha1_hex(text);
  script::Library& library = context.services.scripts->library;
  if (const auto known = library.use(digest)) {
    // If EVAL brought the script, the library keeps it from here on.
    // A known script needs no more room.
    static_cast<void>(library.add(known, false, 0));
  } else if (const Learned learned = learn(context, text, false); learned.source == nullptr) {
    return refuse(context, learned.error);
  }
  context.reply.bulk(digest);
  return Next::done;
}

Next script_exists(Context& context) {
  const auto digests = context.words.subspan(2);
  context.reply.array(digests.size());
  for (const std::string_view digest : digests) {
    const bool known = find_script(context.services.scripts->library, digest) != nullptr;
    context.reply.integer(known ? 1 : 0);
  }
  return Next::done;
}

bool is_flush_mode(std::string_view word) {
  return equal_ignoring_case(word, "SYNC") || equal_ignoring_case(word, "ASYNC");
}

Next script_flush(Context& context) {
  const std::span<const std::string_view> words = context.words;
  const bool has_mode = words.size() == 3 && is_flush_mode(words[2]);
  if (words.size() != 2 && !has_mode) return refuse(context, text::script_flush_option);
  // Both modes do the same. The workers drop what they have compiled before their next script
  // (ScriptRunner::compile).
  context.services.scripts->library.clear();
  context.services.scripts->told_full = false;
  return answer_ok(context);
}

Next script_kill(Context& context) {
  if (!context.services.busy) return refuse(context, text::no_busy_script);
  Scripts& scripts = *context.services.scripts;
  // The script does not run while this worker is inside the gate, so the flag does not change here. The
  // runner finds `kill_asked` when the script goes on.
  if (scripts.busy_has_written) return refuse(context, text::unkillable_script);
  scripts.kill_asked = true;
  return answer_ok(context);
}

Next script_debug(Context& context) {
  const std::string_view mode = context.words[2];
  if (equal_ignoring_case(mode, "NO")) return answer_ok(context);
  const bool is_known = equal_ignoring_case(mode, "YES") || equal_ignoring_case(mode, "SYNC");
  return refuse(context, is_known ? text::no_script_debugger : text::script_debug_mode);
}

Next function_list(Context& context) {
  bool with_code = false;
  bool has_name = false;
  for (std::size_t at = 2; at < context.words.size(); ++at) {
    const std::string_view word = context.words[at];
    if (!with_code && equal_ignoring_case(word, "WITHCODE")) {
      with_code = true;
    } else if (!has_name && equal_ignoring_case(word, "LIBRARYNAME")) {
      if (++at == context.words.size()) return refuse(context, text::no_library_name);
      has_name = true;
    } else {
      return refuse(context, "ERR Unknown argument " + std::string(echoed(word)));
    }
  }
  context.reply.array(0);
  return Next::done;
}

Next function_stats(Context& context) {
  resp::Reply& reply = context.reply;
  reply.map(2);
  reply.field("running_script").null();
  reply.field("engines").map(1);
  reply.field("LUA").map(2);
  for (const std::string_view count : {"libraries_count", "functions_count"}) {
    reply.bulk(count);
    reply.integer(0);
  }
  return Next::done;
}

Next function_flush(Context& context) {
  constexpr std::size_t words_max = 3;
  if (context.words.size() > words_max) return refuse_words(context);
  if (context.words.size() == words_max && !is_flush_mode(context.words[2]))
    return refuse(context, text::function_flush_option);
  return answer_ok(context);
}

constexpr Family script_row{
    .group = "scripting", .categories = Category::scripting, .flags = Flag::no_script};

constexpr CommandSpec function_subcommands[] = {
    script_row("function|delete library-name", 3, "7.0.0", "Answers an error: Sepal has no functions",
               Refused{text::no_functions}, Flag::write | Flag::alone, on_all_shards),
    script_row("function|flush [ASYNC | SYNC]", -2, "7.0.0", "Does nothing: Sepal has no functions",
               function_flush, Flag::write | Flag::alone, on_all_shards),
    script_row.help("function|help", "7.0.0"),
    script_row("function|kill", 2, "7.0.0", "Answers an error: Sepal has no functions, so none runs",
               Refused{text::no_busy_script}, Flag::allow_busy, one_of_shards),
    script_row("function|list [LIBRARYNAME library-name-pattern] [WITHCODE]", -2, "7.0.0",
               "Answers an empty list", function_list, any_order),
    script_row("function|load [REPLACE] function-code", -3, "7.0.0",
               "Answers an error: Sepal has no functions", Refused{text::no_functions},
               Flag::write | Flag::deny_oom | Flag::alone, on_all_shards),
    script_row("function|stats", 2, "7.0.0", "Answers that no function runs, and that there are none",
               function_stats, Flag::allow_busy, each_shard_alone),
};

constexpr CommandSpec script_subcommands[] = {
    script_row("script|debug <YES | SYNC | NO>", 3, "3.2.0",
               "Answers an error: Sepal has no debugger for scripts", script_debug),
    script_row("script|exists sha1 [sha1 ...]", -3, "2.6.0",
               "Answers for each digest whether the server knows its script", script_exists, Flag::alone,
               Cost{"O(N) where N is the number of digests"},
               Tips{"request_policy:all_shards response_policy:agg_logical_and"}),
    script_row("script|flush [ASYNC | SYNC]", -2, "2.6.0", "Forgets all scripts", script_flush,
               Flag::alone | Flag::administers, Cost{"O(N) where N is the number of scripts"}, on_all_nodes),
    script_row.help("script|help", "5.0.0"),
    script_row("script|kill", 2, "2.6.0", "Ends the script that runs for long, if it has changed nothing",
               script_kill, Flag::administers | Flag::allow_busy, one_of_shards),
    script_row("script|load script", 3, "2.6.0",
               "Compiles a script and keeps it for EVALSHA; answers its SHA-1 digest", script_load,
               Flag::stale | Flag::alone | Flag::runs_script,
               Cost{"O(N) where N is the length of the script"}, on_all_nodes),
};

constexpr CommandSpec script_family[] = {
    script_row(
        "eval script numkeys [key [key ...]] [arg [arg ...]]", -3, "2.6.0", "Runs a script in Lua", eval,
        Flag::stale | Flag::alone | Flag::movable_keys | Flag::no_mandatory_keys | Flag::runs_script |
            Flag::skip_monitor,
        keys_of_script("RW access update",
                       "We cannot tell how the keys will be used so we assume the worst, RW and UPDATE"),
        Cost{"Depends on the script that is executed"}),
    script_row(
        "eval_ro script numkeys [key [key ...]] [arg [arg ...]]", -3, "7.0.0",
        "Runs a script in Lua that changes nothing", eval,
        Flag::read_only | Flag::stale | Flag::alone | Flag::movable_keys | Flag::no_mandatory_keys |
            Flag::runs_script | Flag::skip_monitor,
        keys_of_script("RO access",
                       "We cannot tell how the keys will be used so we assume the worst, RO and ACCESS"),
        Cost{"Depends on the script that is executed"}),
    script_row("evalsha sha1 numkeys [key [key ...]] [arg [arg ...]]", -3, "2.6.0",
               "Runs a script that the server knows, named by its SHA-1 digest", eval_by_digest,
               Flag::stale | Flag::alone | Flag::movable_keys | Flag::no_mandatory_keys | Flag::runs_script |
                   Flag::skip_monitor,
               keys_of_script("RW access update"), Cost{"Depends on the script that is executed"}),
    script_row("evalsha_ro sha1 numkeys [key [key ...]] [arg [arg ...]]", -3, "7.0.0",
               "Runs a script that the server knows and that changes nothing, named by its SHA-1 digest",
               eval_by_digest,
               Flag::read_only | Flag::stale | Flag::alone | Flag::movable_keys | Flag::no_mandatory_keys |
                   Flag::runs_script | Flag::skip_monitor,
               keys_of_script("RO access"), Cost{"Depends on the script that is executed"}),
    script_row.container("function", "7.0.0", "Sepal has no functions", function_subcommands,
                         Cost{"Depends on subcommand"}),
    script_row.container("script", "2.6.0", "A container for commands about scripts", script_subcommands,
                         Cost{"Depends on subcommand"}),
};

}  // namespace

constinit const Rows script_rows = script_family;

}  // namespace sepal::command
