// How clients end: when they leave, when their time is over, and at a stop.
#include <sepal/base/assert.hpp>
#include <sepal/base/free_memory.hpp>
#include <sepal/base/gate.hpp>
#include <sepal/session/scheduler.hpp>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "session/client.hpp"
#include "session/strangers.hpp"

namespace sepal::session {
namespace {

using Step = Session::Step;

}  // namespace

void Scheduler::kill(std::uint64_t id) {
  if (Client* const client = find(id)) close(*client);
}

std::optional<std::string> Scheduler::displace_stranger(std::uint64_t random) {
  Client* const client = strangers_->choose(random);
  if (client == nullptr) return std::nullopt;
  std::string address = client->session.client().address;
  close(*client);
  return address;
}

bool Scheduler::drop(std::uint64_t id) {
  Client* const client = find(id);
  if (client == nullptr) return false;
  if (client->session.runs_script()) {
    close(*client);
    return true;
  }
  dropped_.push_back(std::move(unlist(*client).value()));
  client->dropped = true;
  client->outbox = {};
  client->pushed = nullptr;
  free_memory(client->replies);
  return true;
}

void Scheduler::sweep(SteadyTime now, const Patience& patience) {
  std::vector<Client*> over;  // collected first: to close a client changes the map
  std::uint64_t unparsed_peak = 0;
  std::uint64_t unsent_peak = 0;
  for (const Clients* const some : {&clients_, &lingering_}) {
    for (const auto& client : *some) {
      if (is_over(*client, now, patience)) over.push_back(client.get());
      const command::ClientState& state = client->session.client();
      unparsed_peak = std::max(unparsed_peak, state.bytes_unparsed);
      unsent_peak = std::max(unsent_peak, state.bytes_unsent);
    }
  }
  environment_.stats.unparsed_peak.add(unparsed_peak);
  environment_.stats.unsent_peak.add(unsent_peak);
  for (Client* const client : over) close(*client);
}

bool Scheduler::is_over(const Client& client, SteadyTime now, const Patience& patience) const {
  if (client.state == State::lingering)
    return now >= client.lingers_until || (stopping_ && client.stream->all_is_acknowledged());
  if (has_not_logged_in(client, now, patience)) {
    environment_.services.buffers.slow_stranger_closed();
    return true;
  }
  if (patience.idle.count() == 0 || client.session.is_monitor()) return false;
  // In the other states the client waits for the server, or has requests to run.
  if (client.state != State::reading && client.state != State::sending) return false;
  return now - client.session.last_run_at() > patience.idle;
}

// A client that waits for the server is left alone: its request may be the login.
bool Scheduler::has_not_logged_in(const Client& client, SteadyTime now, const Patience& patience) {
  if (patience.login.count() == 0 || client.state != State::reading) return false;
  const command::ClientState& state = client.session.client();
  return !state.authenticated && now - state.connected_at > patience.login;
}

void Scheduler::stop() {
  SEPAL_ASSERT(!stopping_, "the scheduler is told to stop once");
  stopping_ = true;
  // Ids, because ready() may run a round, which may close other clients.
  std::vector<std::uint64_t> ids;
  for (const auto& client : clients_) ids.push_back(client->id());
  for (const std::uint64_t id : ids) {
    Client* const client = find(id);
    if (client == nullptr) continue;
    // A client in another state ends in proceed(), when its requests have run and its replies are sent.
    if (client->state == State::waiting || client->state == State::paused)
      end_waiting(*client);
    else if (client->state == State::reading)
      ready(*client, readable);
  }
  paused_.clear();  // no client is paused any more, and none will be
  run_round();
}

std::size_t Scheduler::cut_off() {
  const std::size_t count = clients_.size();
  // Scripts first: close() keeps a client whose script is suspended, and the loop below would not end. A
  // transaction may have several scripts: each is ended when it is suspended.
  while (environment_.dispatcher.suspended_client() != 0) {
    environment_.dispatcher.end_script(true);
    run_script();
  }
  while (!clients_.empty()) close(**clients_.begin());
  while (!lingering_.empty()) close(**lingering_.begin());
  destroy_dropped();
  return count;
}

// --- the end of a client ---------------------------------------------------------------------------------

// At a stop. What the client waits for does not come any more, but earlier replies may still be sent. A
// script that has changed something goes on until the worker cuts it off.
void Scheduler::end_waiting(Client& client) {
  if (client.session.runs_script()) {
    client.state = State::waiting;
    return environment_.dispatcher.end_script(false);
  }
  if (client.outbox.empty()) return close(client);
  finish(client);
}

// Ends the client when all replies are sent: no more will come.
void Scheduler::finish(Client& client) {
  if (!client.outbox.empty()) {
    client.then = Step::close;
    client.state = State::sending;
    return watch(client, 0);
  }
  SEPAL_ASSERT(client.state != State::lingering && client.replies.empty(),
               "a client ends twice, or before its replies are sent");
  // Three reasons not to linger: the peer sends no more; the peer's system has everything; or the stream
  // needs no waiting at its end.
  if (client.peer_ended || (stopping_ && client.stream->all_is_acknowledged()) || !client.stream->end())
    return close(client);
  client.state = State::lingering;
  client.lingers_until = environment_.steady_now() + linger_max;
  watch(client, readable);
  // The set's node moves with its client: the address that the stream's events name stays good.
  const auto placed = lingering_.insert(unlist(client));
  SEPAL_ASSERT(placed.inserted, "a client lingers under an id of its own");
}

// Reads what the peer of a lingering client still sends, and throws it away.
void Scheduler::discard(Client& client) {
  SEPAL_ASSERT(client.state == State::lingering,
               "bytes of a client are thrown away that still runs requests");
  // No input_arrived() follows, so these bytes take no room: the next receive overwrites them.
  const Stream::Transfer received = client.stream->receive(client.session.input_space());
  if (received.status == Stream::Status::ended || received.status == Stream::Status::failed) close(client);
}

// Destroys the client, and its stream, before it tells the observer: the worker then counts the descriptor as
// free. The caller must not touch the client again. While a script of it is suspended, the client stays.
void Scheduler::close(Client& client) {
  if (client.session.runs_script()) {
    client.abandoned = true;
    return watch(client, 0);
  }
  if (const auto found = lingering_.find(client.id()); found != lingering_.end())
    lingering_.erase(found);
  else
    unlist(client);
  observer_.gone();
}

void Scheduler::destroy_dropped() {
  while (!dropped_.empty()) {
    dropped_.pop_back();
    observer_.gone();
  }
}

// Inside the gate, because collect() reads the clients from other threads. The client itself is destroyed by
// the caller, outside the gate.
Scheduler::Clients::node_type Scheduler::unlist(Client& client) {
  const GateEntered inside(environment_.gate, environment_.gate_side);
  strangers_->remove(client);
  std::ranges::replace(kept_, &client, nullptr);
  client.session.leaves();
  environment_.services.buffers.change_replies(std::exchange(client.unsent_counted, 0), 0);
  const auto found = clients_.find(client.id());
  SEPAL_ASSERT(found != clients_.end(), "a client is listed until it lingers or is gone");
  auto node = clients_.extract(found);
  observer_.left();
  return node;
}

}  // namespace sepal::session
