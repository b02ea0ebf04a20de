// Handlers of commands on the server as a whole.

#include <sepal/base/arguments.hpp>
#include <sepal/command/run/context.hpp>
#include <sepal/command/table/error_texts.hpp>

#include "command/run/refuse.hpp"
#include "command/table/command_row.hpp"
#include "command/table/compatibility.hpp"
#include "command/table/families.hpp"

namespace sepal::command {
namespace {

std::string refused_save(const Error& error) {
  return error.code == Errc::in_use ? std::string(text::save_in_progress) : "ERR " + error.detail;
}

struct ShutdownOptions {
  bool save = false;
  bool no_save = false;
  bool abort = false;
  bool other = false;  // NOW and FORCE: Sepal has no replicas to wait for, and always reports a failed save
  bool unknown = false;

  [[nodiscard]] bool contradict() const {
    return unknown || (save && no_save) || (abort && (save || no_save || other));
  }
};

ShutdownOptions parse_shutdown(std::span<const std::string_view> words) {
  ShutdownOptions options;
  for (const std::string_view word : words) {
    if (equal_ignoring_case(word, "SAVE")) {
      options.save = true;
    } else if (equal_ignoring_case(word, "NOSAVE")) {
      options.no_save = true;
    } else if (equal_ignoring_case(word, "ABORT")) {
      options.abort = true;
    } else if (equal_ignoring_case(word, "NOW") || equal_ignoring_case(word, "FORCE")) {
      options.other = true;
    } else {
      options.unknown = true;
    }
  }
  return options;
}

// SAVE of the reference stops the whole server until it has ended. Here only this client waits: the saver's
// thread does the work and then answers it.
Next save(Context& context) {
  const Result<void> started = context.services.persistence.start_save_for(context.client.id);
  if (started) return Next::wait;
  return refuse(context, refused_save(started.error()));
}

Next background_save(Context& context) {
  // SCHEDULE changes nothing. In the reference it waits for a rewrite of the append-only file, and Sepal has
  // no such rewrite.
  const bool scheduled = context.words.size() == 2 && equal_ignoring_case(context.words[1], "SCHEDULE");
  if (context.words.size() != 1 && !scheduled) return refuse(context, text::syntax);
  const Result<void> started = context.services.persistence.start_save();
  if (started) {
    context.reply.simple("Background saving started");
  } else {
    context.reply.error(refused_save(started.error()));
  }
  return Next::done;
}

// A save makes the journal short, as a rewrite does in the reference.
Next rewrite_journal(Context& context) {
  const Result<void> started = context.services.persistence.start_save();
  if (started) {
    context.reply.simple("Background append only file rewriting started");
  } else {
    const bool running = started.error().code == Errc::in_use;
    context.reply.error(running ? std::string(text::rewrite_in_progress) : refused_save(started.error()));
  }
  return Next::done;
}

Next last_save(Context& context) {
  const WallTime at = context.services.persistence.status().last_success;
  return answer_number(context,
                       std::chrono::duration_cast<std::chrono::seconds>(at.time_since_epoch()).count());
}

Next shut_down(Context& context) {
  const ShutdownOptions options = parse_shutdown(context.words.subspan(1));
  if (options.contradict()) return refuse(context, text::syntax);
  // The row has Flag::allow_busy for NOSAVE alone: so a client can stop the server while a script runs for
  // too long. The other forms are refused, as most commands are.
  if (context.services.busy && !options.no_save) return refuse(context, text::busy_script);
  // A stop that has begun cannot be cancelled, so there is never anything to abort.
  if (options.abort) return refuse(context, text::no_shutdown);
  // The client gets no reply, as in the reference. It learns from the end of its connection that the server
  // stops.
  context.services.control.request_stop(options.no_save ? StopMode::no_save : StopMode::save);
  context.client.close_after_reply = true;
  return Next::close;
}

Next module_list(Context& context) {
  append_modules(context.reply);
  return Next::done;
}

Next lolwut(Context& context) {
  constexpr std::size_t words_with_version = 3;
  const bool with_version =
      context.words.size() >= words_with_version && equal_ignoring_case(context.words[1], "VERSION");
  if (with_version && !parse_integer(context.words[2])) {
    context.reply.error(text::not_an_integer);
  } else {
    context.reply.verbatim("Sepal ver. " + context.services.control.facts().version + "\n");
  }
  return Next::done;
}

Next role(Context& context) {
  // A master at offset 0, without replicas.
  context.reply.array(3);
  context.reply.bulk("master");
  context.reply.integer(0);
  context.reply.array(0);
  return Next::done;
}

Next time(Context& context) {
  const auto now = context.now.time_since_epoch();
  const auto whole = std::chrono::duration_cast<std::chrono::seconds>(now);
  const auto microseconds = std::chrono::duration_cast<std::chrono::microseconds>(now - whole);
  context.reply.array(2);
  context.reply.bulk(std::to_string(whole.count()));
  context.reply.bulk(std::to_string(microseconds.count()));
  return Next::done;
}

constexpr Family server_row{.group = "server"};
constexpr Family saving_row{.group = "server",
                            .flags = Flag::admin | Flag::no_script | Flag::no_async_loading};

constexpr CommandSpec module_subcommands[] = {
    server_row.help("module|help", "5.0.0"),
    server_row("module|list", 2, "4.0.0", "Names the module whose commands Sepal speaks", module_list,
               Flag::admin | Flag::no_script, any_order),
    saving_row("module|load path [arg [arg ...]]", -3, "4.0.0",
               "Answers the error of a server that loads no modules", Refused{text::no_module_command},
               Flag::not_enabled),
    saving_row("module|loadex path [CONFIG name value] [ARGS args [args ...]]", -3, "7.0.0",
               "Answers the error of a server that loads no modules", Refused{text::no_module_command},
               Flag::not_enabled),
    saving_row("module|unload name", 3, "4.0.0", "Answers the error of a server that loads no modules",
               Refused{text::no_module_command}, Flag::not_enabled),
};

constexpr CommandSpec server_family[] = {
    saving_row("bgrewriteaof", 1, "1.0.0", "Starts a save, which makes the journal short", rewrite_journal),
    saving_row("bgsave [SCHEDULE]", -1, "1.0.0", "Starts a save", background_save),
    server_row("lastsave", 1, "1.0.0", "Answers when the last good save ended, in seconds since 1970",
               last_save, Flag::loading | Flag::stale | Flag::fast, Category::admin | Category::dangerous,
               any_output),
    server_row("lolwut [VERSION version]", -1, "5.0.0", "Answers a line with the version of Sepal", lolwut,
               Flag::read_only | Flag::fast),
    server_row.container("module", "4.0.0", "Commands about modules", module_subcommands),
    server_row("role", 1, "2.8.12", "Answers that the server is a master without replicas", role,
               Flag::no_script | Flag::loading | Flag::stale | Flag::fast,
               Category::admin | Category::dangerous),
    saving_row("save", 1, "1.0.0", "Saves, and answers when that is done; other connections go on meanwhile",
               save, Flag::no_multi, Cost{"O(N) where N is the number of bytes changed since the last save"}),
    server_row("shutdown [NOSAVE | SAVE] [NOW] [FORCE] [ABORT]", -1, "1.0.0",
               "Stops the server, after a save unless NOSAVE", shut_down,
               Flag::admin | Flag::no_script | Flag::loading | Flag::stale | Flag::administers |
                   Flag::allow_busy | Flag::no_multi,
               Cost{"O(N) when saving, where N is the number of bytes changed since the last save"}),
    server_row("time", 1, "2.6.0", "Answers the time: seconds since 1970, and microseconds", time,
               Flag::loading | Flag::stale | Flag::fast, any_output),
};

}  // namespace

constinit const Rows server_rows = server_family;

}  // namespace sepal::command
