// The handler of MONITOR, and the part of the dispatcher that shows commands to monitors.

#include <sepal/command/run/dispatcher.hpp>

#include <memory>
#include <utility>

#include "command/run/monitor_text.hpp"
#include "command/run/refuse.hpp"
#include "command/table/command_row.hpp"
#include "command/table/families.hpp"

namespace sepal::command {

Next monitor(Context& context) {
  ClientState& client = context.client;
  if (client.monitoring == nullptr)
    client.monitoring = std::make_unique<Monitoring>(
        context.services.monitors,
        Monitors::Monitor{.client_id = client.id, .worker = context.dispatcher.worker()});
  return answer_ok(context);
}

// Commands that administer the server are not shown, and QUIT is not, as in the reference. A script is shown
// when it begins, before its commands.
void Dispatcher::show(const Request& request, const RunMode& mode) {
  const Flags flags = request.spec->flags;
  if (!flags.has(Flag::admin) && !flags.has(Flag::skip_monitor) && request.spec->name != "quit")
    show_always(request, mode);
}

void Dispatcher::show_always(const Request& request, const RunMode& mode) {
  append_monitor_line(shown_, mode.now, request.client, request.words);
  if (shown_.size() >= monitor_piece_bytes) hand_over_shown();
}

void Dispatcher::show_together(const Request& first, std::span<const std::string_view> last_words,
                               const RunMode& mode) {
  std::vector<std::string_view> words(first.words.begin(), first.words.end());
  for (const std::string_view word : last_words) {
    words[together_index(*first.spec, words.size())] = word;
    Request request = first;
    request.words = words;
    show(request, mode);
  }
}

void Dispatcher::hand_over_shown() {
  ClientDirectory& clients = services_.clients;
  const auto lines = services_.monitors.on_their_way(std::exchange(shown_, {}),
                                                     monitor_bytes_of(services_.options.clients_memory_max));
  for (const Monitors::Monitor& monitor : services_.monitors.all()) {
    if (lines != nullptr) {
      clients.push(monitor.worker, monitor.client_id, lines);
    } else {
      // Its worker cannot follow. It gets no further lines, and is closed when its worker comes to that.
      // Another worker may have come to the same.
      if (!services_.monitors.remove(monitor.client_id)) continue;
      services_.buffers.client_closed();
      clients.kill(monitor.client_id);
    }
  }
}

namespace {

constexpr Family monitor_row{.group = "server",
                             .flags = Flag::admin | Flag::no_script | Flag::loading | Flag::stale};

constexpr CommandSpec monitor_family[] = {
    monitor_row("monitor", 1, "1.0.0", "Shows the connection each command that the server runs", monitor,
                Flag::administers | Flag::outside_multi),
};

}  // namespace

constinit const Rows monitor_rows = monitor_family;

}  // namespace sepal::command
