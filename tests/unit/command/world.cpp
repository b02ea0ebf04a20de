#include "world.hpp"

#include <sepal/command/run/client_users.hpp>
#include <sepal/command/users/users.hpp>

#include <cstddef>
#include <limits>
#include <stdexcept>

#include "support/values.hpp"

namespace sepal::command::testing {
namespace {

class Reader {
 public:
  explicit Reader(std::string_view encoded) : rest_(encoded) {}

  [[nodiscard]] bool at_end() const { return rest_.empty(); }

  std::string next() {
    const std::string line = take_line();
    const char type = line.at(0);
    const std::string value = line.substr(1);
    switch (type) {
      case '$':
      case '=': return value == "-1" ? "$null" : type + take_bulk(std::stoul(value));
      case '*': return value == "-1" ? "*null" : "*" + list(std::stoul(value));
      case '~': return "~" + list(std::stoul(value));
      case '%': return "%" + map(std::stoul(value));
      default: return line;
    }
  }

 private:
  std::string take_line() {
    const std::size_t end = rest_.find("\r\n");
    if (end == std::string_view::npos || end == 0) throw std::runtime_error("not a reply");
    std::string line(rest_.substr(0, end));
    rest_.remove_prefix(end + 2);
    return line;
  }
  std::string take_bulk(std::size_t length) {
    if (rest_.size() < length + 2 || rest_.substr(length, 2) != "\r\n")
      throw std::runtime_error("not a bulk");
    std::string bytes(rest_.substr(0, length));
    rest_.remove_prefix(length + 2);
    return bytes;
  }
  std::string list(std::size_t count) {
    std::string text = "[";
    for (std::size_t i = 0; i < count; ++i) text.append(i == 0 ? "" : ", ").append(next());
    return text + "]";
  }
  std::string map(std::size_t pairs) {
    std::string text = "{";
    for (std::size_t i = 0; i < pairs; ++i) {
      text.append(i == 0 ? "" : ", ").append(next());
      text.append("=").append(next());
    }
    return text + "}";
  }

  std::string_view rest_;
};

std::string whole(resp::Reply& reply) {
  std::string encoded;
  reply.fill(std::numeric_limits<std::size_t>::max());
  reply.swap_out(encoded);
  return encoded;
}

}  // namespace

std::string readable(std::string_view encoded) {
  std::string text;
  for (Reader reader(encoded); !reader.at_end();) text.append(text.empty() ? "" : " ").append(reader.next());
  return text;
}

World::World(const keyspace::KeyspaceOptions& keyspace_options)
    : keyspace(keyspace_options, housekeeper),
      services{.keyspace = keyspace,
               .options = options,
               .clients = clients,
               .persistence = persistence,
               .control = control,
               .configuration = configuration,
               .workers = workers,
               .journal = journal,
               .adoptions = adoptions,
               .transfers = transfers},
      dispatcher(services, 0, nullptr) {
  settings.keyspace = keyspace_options;
  control.about.version = "0.0.1";
  control.about.run_id = std::string(40, 'a');
  control.about.data_directory = "/var/lib/sepal";
  control.about.started_at = steady_now - std::chrono::minutes(1);
}

void World::settings_changed() {
  const keyspace::KeyspaceOptions& limits = settings.keyspace;
  keyspace.set_memory_max(limits.memory_max);
  keyspace.set_defaults(limits);
  announced.push_back(options);
}

World::Connection& World::connection(std::string_view name) {
  const auto found = connections_.find(name);
  if (found != connections_.end()) return *found->second;
  auto made = std::make_unique<Connection>();
  made->client.id = connections_.size() + 1;
  made->client.address = "127.0.0.1:" + std::to_string(50'000 + made->client.id);
  made->client.local_address = "127.0.0.1:6379";
  made->client.descriptor = 9;
  welcome(*services.users, made->client);
  made->client.connected_at = steady_now;
  clients.clients[made->client.id] = &made->client;
  return *connections_.emplace(name, std::move(made)).first->second;
}

std::string World::send_from(std::string_view name, std::initializer_list<std::string_view> words) {
  return send_words(name, words);
}

std::string World::send_words(std::string_view name, const std::vector<std::string_view>& words) {
  Connection& from = connection(name);
  const Request request{.client = from.client,
                        .reply = from.reply,
                        .spec = row_for(words),
                        .words = words,
                        .partial = from.partial};
  int parts = 0;
  for (;;) {
    RunMode mode{.now = now, .steady_now = steady_now};
    outcome = dispatcher.run(request, mode);
    if (outcome.next == Next::need_alone) {
      if (from.reply.size() != 0) throw std::runtime_error("a request that needs to be alone has replied");
      ++alone_runs;
      mode.alone = true;
      outcome = dispatcher.run(request, mode);
    }
    if (outcome.next != Next::more) break;
    if (from.reply.size() != 0) throw std::runtime_error("a request that goes on has replied");
    ++parts;
    if (between_parts) between_parts(parts);
  }
  parts_before_the_last = parts;
  bytes_later = from.reply.bytes_later();
  const std::string encoded = whole(from.reply);
  reply_bytes = encoded.size();
  return readable(encoded);
}

Result<void> World::succeed(const Succession& succession, const value::ValuePtr& made) {
  keyspace::WorkerLog* const log = services.logs.empty() ? nullptr : services.logs.front();
  for (;;) {
    for (const auto& request : std::exchange(meanwhile, {})) request();
    if (auto caught_up = succession.catch_up(made); !caught_up) return caught_up;
    keyspace::Mutator changes(keyspace, log);
    const auto put = succession.put(changes, made);
    if (log != nullptr) log->commit();
    if (put) return *put;
  }
}

std::string World::adopt_first() {
  if (adoptions.waiting.size() != 1) throw std::runtime_error("not one job waits");
  const auto waiting = std::move(adoptions.waiting.front());
  adoptions.waiting.clear();
  const JobContext job{.limits = keyspace.value_limits(),
                       .hold = [](std::uint64_t) { return Result<void>(); },
                       .go_on = {},
                       .alone = [&](const auto& work) { work(keyspace); }};
  resp::Reply reply;
  if (waiting.errand.run) {
    waiting.errand.run(job)(reply);
    return readable(whole(reply));
  }
  const Adoption& adoption = waiting.adoption;
  const keyspace::DatabaseKey key{.database = adoption.database, .key = adoption.key};
  auto made = adoption.make(job);
  Result<void> done = made ? Result<void>() : made.error();
  if (adoption.succession.put) {
    if (made) done = succeed(adoption.succession, *made);
    adoption.succession.ended(keyspace);
    adoption.answer(reply, done);
    return readable(whole(reply));
  }
  if (made && adoption.still_wanted && !adoption.still_wanted()) done = fail(Errc::no_such_key);
  if (done && !adoption.replace && keyspace.find(key) != nullptr) done = fail(Errc::key_exists);
  if (done) done = keyspace.put(key, *made, adoption.deadline);
  if (done && adoption.adopted) adoption.adopted();
  adoption.answer(reply, done);
  return readable(whole(reply));
}

std::string World::finish_script() {
  while (!dispatcher.resume_script()) {
  }
  resp::Reply reply;
  dispatcher.finish_script(reply);
  return readable(whole(reply));
}

}  // namespace sepal::command::testing
