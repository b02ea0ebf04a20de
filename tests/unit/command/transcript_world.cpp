// Runs transcripts: what the words behind "?" look at, and what those behind "@" do.
#include <sepal/command/run/scripts.hpp>
#include <sepal/command/users/users.hpp>
#include <sepal/keyspace/mutator.hpp>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <exception>
#include <functional>
#include <optional>
#include <stdexcept>
#include <utility>

#include "transcript.hpp"
#include "unit/command/world.hpp"

namespace sepal::command::testing {
namespace {

using test::Recorded;
using Words = std::vector<std::string>;

std::uint64_t number(const std::string& word) {
  return std::stoull(word);
}

std::chrono::nanoseconds time_of(const std::string& count, std::string_view unit) {
  const std::pair<std::string_view, std::chrono::nanoseconds> units[] = {{"ns", std::chrono::nanoseconds(1)},
                                                                         {"us", std::chrono::microseconds(1)},
                                                                         {"ms", std::chrono::milliseconds(1)},
                                                                         {"s", std::chrono::seconds(1)},
                                                                         {"h", std::chrono::hours(1)}};
  for (const auto& [name, one] : units)
    if (name == unit) return one * static_cast<std::int64_t>(number(count));
  throw std::runtime_error("a time has a unit: ns, us, ms, s, h");
}

// "created k", "added k 2": two items, "written k 8+3": 3 bytes from offset 8.
std::string told(const Recorded& recorded) {
  using Kind = Recorded::Kind;
  const auto deadline = [&] {
    return recorded.deadline == keyspace::no_deadline ? "" : " " + std::to_string(recorded.deadline);
  };
  const std::string database = std::to_string(recorded.database);
  switch (recorded.kind) {
    case Kind::added: return "added " + recorded.key + " " + std::to_string(recorded.fingerprints.size());
    case Kind::created: return "created " + recorded.key;
    case Kind::grown: return "grown " + recorded.key;
    case Kind::removed: return "removed " + recorded.key;
    case Kind::expires: return "expires " + recorded.key + (deadline().empty() ? " never" : deadline());
    case Kind::renamed: return "renamed " + recorded.key + " " + recorded.target;
    case Kind::adopted: return "adopted " + recorded.key + deadline();
    case Kind::remade: return "remade " + recorded.key;
    case Kind::moved: return "moved " + recorded.key + " " + std::to_string(recorded.other);
    case Kind::swapped: return "swapped " + database + " " + std::to_string(recorded.other);
    case Kind::mirrored: return "mirrored " + recorded.key + " " + recorded.target;
    case Kind::flushed: return "flushed " + database;
    case Kind::flushed_all: return "flushed all";
    case Kind::cuckoo_created:
    case Kind::redis_cuckoo_created: return "created " + recorded.key;
    case Kind::cuckoo_changed: return "changed " + recorded.key;
    case Kind::redis_cuckoo_changed:
      return "changed " + recorded.key + " " + std::to_string(recorded.what) + ":" +
             std::to_string(recorded.image.size());
    case Kind::written:
      return "written " + recorded.key + " " + std::to_string(recorded.offset) + "+" +
             std::to_string(recorded.image.size());
  }
  return "?";
}

template <class List>
std::string in_a_row(List& list) {
  std::string text;
  for (const auto& each : std::exchange(list, {})) {
    if (!text.empty()) text += ", ";
    if constexpr (std::is_same_v<typename List::value_type, std::string>) {
      text += each;
    } else {
      text += std::to_string(static_cast<std::uint64_t>(each));
    }
  }
  return text;
}

// Runs the lines of one case.
class Server {
 public:
  Server(std::string_view file, std::vector<std::string>& failures) : file_(file), failures_(failures) {}

  ~Server() {
    if (world_) world_->services.scripts->kill_asked = true;  // also of a script without an end
  }
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  void run(const TranscriptLine& line) {
    try {
      take(line);
    } catch (const std::exception& error) {
      failures_.push_back(place(line) + "\n  " + error.what());
    }
  }

 private:
  void take(const TranscriptLine& line) {
    std::string_view rest = line.text;
    const bool again = rest.starts_with(' ');
    const bool is_not = again && rest.find("!> ") != std::string_view::npos;
    const std::size_t arrow = again ? rest.find_first_not_of(' ') : rest.find(" -> ");
    if (!again) {
      const TranscriptStep step = transcript_step(rest.substr(0, arrow), captured_);
      seen_ = answer(step);
      if (seen_.empty()) seen_ = "(nothing)";
    }
    if (arrow == std::string_view::npos) {
      if (seen_.starts_with('-')) failures_.push_back(place(line) + "\n  seen:     " + shown(seen_));
      return;
    }
    rest.remove_prefix(std::min(arrow + (again ? 3 : 4), rest.size()));
    if (matches(rest, seen_, captured_) == is_not)
      failures_.push_back(place(line) + (is_not ? "\n  must not be: " : "\n  expected: ") +
                          std::string(rest) + "\n  seen:     " + shown(seen_));
  }

  [[nodiscard]] std::string place(const TranscriptLine& line) const {
    return std::string(file_) + ":" + std::to_string(line.number) + ": " + shown(line.text);
  }

  std::string answer(const TranscriptStep& step) {
    const Words rest(step.words.begin() + 1, step.words.end());
    if (step.client == "@" && step.words[0] == "server") return make_server(rest);
    if (step.client == "@") return find(deeds(), step.words[0])(rest);
    if (step.client == "?") return look(step.words[0]);
    std::string reply;
    for (int at = 0; at < step.times; ++at) reply = send(step, at);
    return reply;
  }

  std::string send(const TranscriptStep& step, int at) {
    std::string client = step.client;
    Words words = step.words;
    if (step.times > 1) {
      number_marks(client, at);
      for (std::string& word : words) number_marks(word, at);
    }
    std::string reply = world().send_words(client, {words.begin(), words.end()});
    const Next next = world().outcome.next;
    if (next == Next::done) return reply;
    if (next == Next::close) return reply + (reply.empty() ? "(close)" : " (close)");
    return next == Next::wait ? "(wait)" : next == Next::later ? "(later)" : "(held)";
  }

  World& world() {
    if (!world_) world_.emplace(options_);
    return *world_;
  }

  // Options of a keyspace, in pairs. The first line of a case.
  std::string make_server(const Words& words) {
    if (world_) throw std::runtime_error("the server is there already");
    const std::map<std::string_view, std::function<void(const std::string&)>> known{
        {"layers_max",
         [&](const std::string& value) { options_.layers_max = static_cast<std::uint32_t>(number(value)); }},
        {"error_rate", [&](const std::string& value) { options_.error_rate = std::stod(value); }},
        {"keys_max", [&](const std::string& value) { options_.keys_max = number(value); }},
        {"machine_bytes", [&](const std::string& value) { options_.machine_bytes = number(value); }},
        {"workers", [&](const std::string& value) { options_.worker_count = number(value); }}};
    for (std::size_t at = 0; at + 1 < words.size(); at += 2) find(known, words[at])(words[at + 1]);
    return {};
  }

  template <class Table>
  static const typename Table::mapped_type& find(const Table& table, const std::string& name) {
    const auto found = table.find(name);
    if (found == table.end()) throw std::runtime_error("nothing has the name " + name);
    return found->second;
  }

  // A number that only grows is shown as what has been added since the last look.
  std::string look(const std::string& name) {
    const auto counted = counters().find(name);
    if (counted == counters().end()) return find(looks(), name)();
    const std::uint64_t now = counted->second();
    return std::to_string(now - std::exchange(counted_[name], now));
  }

  using Counters = std::map<std::string_view, std::function<std::uint64_t()>>;
  const Counters& counters() {
    if (!counters_.empty()) return counters_;
    const WorkerStats& worker = world().workers[0];
    counters_ = {
        {"gate", [&] { return static_cast<std::uint64_t>(world().alone_runs); }},  // how often it was closed
        {"hits", [&] { return worker.key_hits.get(); }},
        {"misses", [&] { return worker.key_misses.get(); }},
        {"errors", [&] { return worker.error_replies.get(); }},
        {"requests", [&] { return worker.requests.get(); }},
        {"added", [&] { return worker.items_added.get(); }},
        {"removed", [&] { return worker.items_removed.get(); }},
        {"asked", [&] { return worker.items_asked.get(); }},
        {"found", [&] { return worker.items_found.get(); }},
        {"bits", [&] { return worker.other_changes.get(); }},
        {"expired", [&] { return world().keyspace.expired_count(); }},
        {"changes", [&] { return world().keyspace.structure_changes(); }},
        {"groups", [&] { return static_cast<std::uint64_t>(world().recording.groups); }},
    };
    return counters_;
  }

  // Lists are emptied by the look.
  using Looks = std::map<std::string_view, std::function<std::string()>>;
  const Looks& looks() {
    if (!looks_.empty()) return looks_;
    World& w = world();
    looks_ = {
        {"parts", [&] { return std::to_string(w.parts_before_the_last); }},  // but the last one
        {"later_bytes", [&] { return std::to_string(w.bytes_later); }},  // filled in when the reply is sent
        {"keys", [&] { return std::to_string(w.keyspace.total_size()); }},
        {"mirrors", [&] { return std::to_string(w.keyspace.mirrors().size()); }},
        {"watched", [&] { return std::to_string(w.keyspace.watches().key_count()); }},
        {"kept_names", [&] { return std::to_string(w.keyspace.watches().kept_key_count()); }},
        {"jobs", [&] { return std::to_string(w.adoptions.waiting.size()); }},
        {"saves", [&] { return std::to_string(w.persistence.started); }},
        {"set",
         [&] { return std::to_string(w.announced.size()); }},  // how often CONFIG SET changed something
        {"row", [&] { return std::string(w.outcome.spec == nullptr ? "none" : w.outcome.spec->name); }},
        {"database", [&] { return std::to_string(w.connection("a").client.database); }},
        {"protocol", [&] { return std::to_string(w.connection("a").client.protocol); }},
        {"suspended", [&] { return std::to_string(w.dispatcher.suspended_client()); }},  // by a script
        {"monitors", [&] { return std::to_string(w.services.monitors.count()); }},
        {"accepted", [&] { return std::to_string(w.clients.accepted); }},
        {"pauses_ended", [&] { return std::to_string(w.clients.pauses_ended); }},
        {"purges", [&] { return std::to_string(w.control.purges); }},
        {"http_requests", [&] { return std::to_string(w.control.http_requests); }},
        {"saved_users", [&] { return w.control.saved_users; }},
        {"loading_for", [&] { return in_a_row(w.control.loading_for); }},
        {"killed", [&] { return in_a_row(w.clients.killed); }},
        {"stops", [&] { return in_a_row(w.control.stops); }},
        {"saving_for", [&] { return in_a_row(w.persistence.waiting); }},
        {"rewriting_for", [&] { return in_a_row(w.control.rewriting_for); }},
        {"administration", [&] { return in_a_row(w.control.administration); }},
        {"failed_logins", [&] { return std::to_string(w.control.failed_logins.size()); }},
        {"script_lines", [&] { return in_a_row(w.control.script_lines); }},
        {"shown", [&] { return shown_to_monitors(); }},
        {"recorded", [&] { return take_recorded(); }},
        {"committed", [&] { return take_committed(); }},  // without what still waits for the end of the batch
        {"job", [&] { return std::string(w.adoptions.waiting.at(0).adoption.what); }},
        {"gate_before_the_last_part", [&] { return std::to_string(gate_before_the_last_part_); }},
        {"options", [&] { return options(); }},
        {"batch", [&] { return batch(); }},
        {"waits_for_disk", [&] { return w.dispatcher.take_record().log != nullptr ? "yes" : "no"; }},
    };
    return looks_;
  }

  using Deeds = std::map<std::string_view, std::function<std::string(const Words&)>>;
  const Deeds& deeds() {
    if (!deeds_.empty()) return deeds_;
    World& w = world();
    const auto done = [](auto what) {
      return [what](const Words& words) {
        what(words);
        return std::string();
      };
    };
    deeds_ = {
        {"pass", done([&](const Words& words) {
           w.steady_now += time_of(words.at(0), words.at(1));
           w.now += std::chrono::duration_cast<WallTime::duration>(time_of(words.at(0), words.at(1)));
         })},
        {"connect", done([&](const Words& words) { w.connection(words.at(0)); })},
        {"record", done([&](const Words&) { w.services.logs = w.recording.all_logs(); })},
        {"journal", done([&](const Words& words) { set_journal(words.at(0)); })},
        {"grants", done([&](const Words& words) {
           w.recording.grants_left = static_cast<std::int64_t>(number(words.at(0)));
         })},
        // Of maxmemory, behind what is used.
        {"memory_left", done([&](const Words& words) {
           w.keyspace.set_memory_max(w.keyspace.memory_used() + number(words.at(0)));
         })},
        {"memory_max", done([&](const Words& words) { w.keyspace.set_memory_max(number(words.at(0))); })},
        // As a session tells it: a time, and the request that took so long.
        {"took", done([&](const Words& words) { took(words); })},
        {"password", done([&](const Words& words) { w.services.users->set_default_password(words.at(0)); })},
        {"loading", done([&](const Words& words) { w.services.load.running = words.at(0) == "yes"; })},
        {"save_running",
         done([&](const Words& words) { w.persistence.state.running = words.at(0) == "yes"; })},
        {"save_fails", done([&](const Words& words) { w.persistence.broken.detail = words.at(0); })},
        {"config_file", done([&](const Words&) { w.control.has_config_file = true; })},
        {"acl_file", done([&](const Words&) { w.control.has_acl_file = true; })},
        {"clients_possible", done([&](const Words& words) { w.control.most_clients = number(words.at(0)); })},
        {"import_folder", done([&](const Words& words) { w.transfers.there = words.at(0) == "yes"; })},
        {"durable", done([&](const Words& words) { w.journal.durable = number(words.at(0)); })},
        {"position", done([&](const Words& words) { w.journal.state.position = number(words.at(0)); })},
        {"journal_accepts",
         done([&](const Words& words) { w.journal.state.accepting = words.at(0) == "yes"; })},
        {"journal_resumes", done([&](const Words&) { w.journal.state.resumes = true; })},
        {"last_save", done([&](const Words& words) {  // so long ago
           w.persistence.state.saves_done = 1;
           w.persistence.state.last_success =
               w.now - std::chrono::duration_cast<WallTime::duration>(time_of(words.at(0), words.at(1)));
         })},
        // From here on <NAME> stands for a text.
        {"let", done([&](const Words& words) { captured_[words.at(0)] = words.at(1); })},
        // The suspended script runs until it ends, and is answered.
        {"finish", [&](const Words&) { return w.finish_script(); }},
        // When the next long request has run so many parts, a client sends this, or this is done.
        {"between", done([&](const Words& words) { between(static_cast<int>(number(words.at(0))), words); })},
        {"gate_before_the_last_part", done([&](const Words&) {
           const int before = world().alone_runs;
           world().between_parts = [this, before](int) {
             gate_before_the_last_part_ = world().alone_runs - before;
           };
         })},
        // While the job that the next adopt carries out runs, a client sends this.
        {"meanwhile", done([&](const Words& words) {
           w.meanwhile.push_back(
               [&w, words] { w.send_words("b", std::vector<std::string_view>(words.begin(), words.end())); });
         })},
        // The adopter carries the only job out, and answers.
        {"adopt", [&](const Words&) { return w.adopt_first(); }},
    };
    return deeds_;
  }

  void set_journal(const std::string& word) {
    const std::map<std::string_view, keyspace::Admission> admissions{
        {"granted", keyspace::Admission::granted},
        {"refused", keyspace::Admission::refused},
        {"later", keyspace::Admission::later}};
    if (word == "removals") {
      world().recording.takes_freeing = true;
    } else {
      world().recording.admission = find(admissions, word);
    }
  }

  void took(const Words& words) {
    const auto duration = time_of(words.at(0), words.at(1));
    const bool many = words.at(3 < words.size() ? 3 : 0) == "*";
    const std::uint64_t times = many ? number(words.at(2)) : 1;
    const std::vector<std::string_view> request(words.begin() + (many ? 4 : 2), words.end());
    const CommandSpec& spec = *row_for(request);
    world().dispatcher.count_calls(spec, times, duration);
    if (!world().dispatcher.is_slow(duration)) return;
    world().dispatcher.note_slow({.client = world().connection("a").client,
                                  .spec = spec,
                                  .words = request,
                                  .times = times,
                                  .duration = duration,
                                  .now = world().now});
  }

  void between(int parts, const Words& words) {
    TranscriptStep step{.client = words.at(1), .words = {words.begin() + 2, words.end()}};
    if (step.client.ends_with(':')) step.client.pop_back();
    world().between_parts = [this, parts, step = std::move(step)](int done) {
      if (done != parts) return;
      const std::function<void(int)> kept = std::exchange(world().between_parts, {});
      answer(step);
    };
  }

  // Whether the requests since the last look may have changed something, and have answered that an item is
  // known.
  std::string batch() {
    const BatchRecord record = world().dispatcher.take_record();
    return std::string(record.log == nullptr ? "" : "changes") +
           (record.answered_known ? ", answered known" : "");
  }

  std::string options() {
    const RuntimeOptions& live = world().options;
    return "memory_max=" + std::to_string(world().keyspace.options().memory_max) +
           " idle_timeout=" + std::to_string(live.idle_timeout.count()) +
           " tcp_keepalive=" + std::to_string(live.tcp_keepalive.count()) +
           " clients_max=" + std::to_string(live.clients_max) +
           " bulk_bytes_max=" + std::to_string(live.parser.bulk_bytes_max) +
           " request_bytes_max=" + std::to_string(live.parser.request_bytes_max) +
           " password=" + live.password + " log_level=" + std::to_string(static_cast<int>(live.log_level)) +
           " save_interval=" + std::to_string(live.save_interval.count());
  }

  // What the requests since the last look have recorded. As many bytes were admitted at least.
  std::string take_recorded() {
    world().dispatcher.commit();
    return take_committed();
  }
  std::string take_committed() {
    const std::vector<Recorded> all = world().recording.operations();
    std::string text;
    std::uint64_t bytes = 0;
    for (std::size_t at = recorded_; at < all.size(); ++at) {
      text += (text.empty() ? "" : ", ") + told(all[at]);
      bytes += all[at].bytes();
    }
    recorded_ = all.size();
    const std::uint64_t admitted = world().recording.admitted_bytes();
    if (bytes > admitted - std::exchange(admitted_, admitted))
      throw std::runtime_error("more was recorded than admitted: " + text);
    return text;
  }

  // The lines for monitors, without their time and address.
  std::string shown_to_monitors() {
    static_cast<void>(world().dispatcher.take_record());
    std::string lines = std::exchange(world().clients.pushed, {});
    for (std::size_t at = lines.find("] \""); at != std::string::npos; at = lines.find("] \"", at + 1)) {
      const std::size_t begin = lines.rfind('\n', at) + 1;
      lines.erase(begin, at + 2 - begin);
      at = begin;
    }
    return lines;
  }

  std::string_view file_;
  std::vector<std::string>& failures_;
  keyspace::KeyspaceOptions options_{.seed = 1};
  std::optional<World> world_;
  Counters counters_;
  Looks looks_;
  Deeds deeds_;
  Captured captured_;
  std::string seen_;  // the last reply
  std::map<std::string, std::uint64_t> counted_;
  std::size_t recorded_ = 0;
  std::uint64_t admitted_ = 0;
  int gate_before_the_last_part_ = 0;
};

}  // namespace

std::vector<std::string> transcript_failures(std::string_view file, std::string_view text) {
  std::vector<std::string> failures;
  for (const TranscriptRun& run : transcript_runs(text)) {
    const std::size_t before = failures.size();
    Server server(file, failures);
    for (const TranscriptLine& line : run.lines) server.run(line);
    if (failures.size() > before) failures.back() += "\n  in: " + run.title;
  }
  return failures;
}

}  // namespace sepal::command::testing
