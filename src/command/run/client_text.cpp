#include "command/run/client_text.hpp"

#include <sepal/command/table/command_table.hpp>

#include <algorithm>

namespace sepal::command {
namespace {

class Line {
 public:
  explicit Line(std::string& text) : text_(text) {}

  Line& field(std::string_view name, std::string_view value) {
    if (!first_) text_.push_back(' ');
    first_ = false;
    text_.append(name).append("=").append(value);
    return *this;
  }
  Line& field(std::string_view name, std::int64_t value) { return field(name, std::to_string(value)); }
  Line& count(std::string_view name, std::uint64_t value) { return field(name, std::to_string(value)); }

 private:
  std::string& text_;
  bool first_ = true;
};

std::int64_t seconds_between(SteadyTime from, SteadyTime to) {
  return std::max(std::int64_t{0}, std::chrono::duration_cast<std::chrono::seconds>(to - from).count());
}

// The reference's letters: a monitor, a client in a transaction, CLIENT NO-EVICT, CLIENT NO-TOUCH; N if none
// holds.
std::string flags_of(const ClientState& client) {
  std::string flags;
  if (client.monitoring != nullptr) flags.push_back('O');
  if (client.transaction != nullptr) flags.push_back('x');
  if (client.no_evict) flags.push_back('e');
  if (client.no_touch) flags.push_back('T');
  return flags.empty() ? "N" : flags;
}

// -1: the client is in no transaction.
std::int64_t queued_commands(const ClientState& client) {
  return client.transaction == nullptr ? -1 : static_cast<std::int64_t>(client.transaction->command_count());
}

}  // namespace

bool fits_client_line(std::string_view text) {
  const auto fits = [](char letter) { return letter == '\0' || (letter >= '!' && letter <= '~'); };
  return text.size() <= client_field_bytes_max && std::ranges::all_of(text, fits);
}

// The fields of Redis 7.4, all of them, in its order: libraries fail on an absent field, and on an unknown
// one. Sepal keeps no buffer for a client that waits, so the fields about such buffers are zero.
void append_client_line(std::string& text, const ClientState& client, SteadyTime now) {
  // A connection that has sent nothing yet has been idle since it was accepted.
  const SteadyTime active = std::max(client.last_request_at, client.connected_at);
  const std::uint64_t queued_bytes = client.transaction == nullptr ? 0 : client.transaction->byte_count();
  Line line(text);
  line.count("id", client.id).field("addr", client.address).field("laddr", client.local_address);
  line.field("fd", client.descriptor).field("name", client.shown_names().client);
  line.field("age", seconds_between(client.connected_at, now)).field("idle", seconds_between(active, now));
  line.field("flags", flags_of(client)).count("db", client.database);
  line.field("sub", "0").field("psub", "0").field("ssub", "0").field("multi", queued_commands(client));
  line.count("watch", client.watch == nullptr ? 0 : client.watch->key_count());
  line.count("qbuf", client.bytes_unparsed).field("qbuf-free", "0").field("argv-mem", "0");
  line.count("multi-mem", queued_bytes).field("rbs", "0").field("rbp", "0").field("obl", "0");
  line.field("oll", client.bytes_unsent == 0 ? "0" : "1").count("omem", client.bytes_unsent);
  line.count("tot-mem", sizeof client + client.bytes_held());
  line.field("events", "r").field("cmd", client.last_command != nullptr ? client.last_command->name : "NULL");
  line.field("user", client.user->name()).field("redir", "-1").count("resp", client.protocol);
  line.field("lib-name", client.shown_names().library).field("lib-ver", client.shown_names().library_version);
  text.push_back('\n');
}

std::string client_line(const ClientState& client, SteadyTime now) {
  std::string line;
  append_client_line(line, client, now);
  line.pop_back();
  return line;
}

}  // namespace sepal::command
