// A scheduler whose streams are fakes of the test.
#pragma once

#include <sepal/session/scheduler.hpp>
#include <sepal/session/stream.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "support/catch.hpp"
#include "unit/session/session_world.hpp"

namespace sepal::session::test {

// The behaviour of a peer, and the bytes that it got. Outlives the client.
struct Peer {
  static constexpr std::size_t any_amount = std::numeric_limits<std::size_t>::max();

  std::string to_send;  // bytes for the next receives
  bool ended = false;   // the end follows these bytes
  bool broken = false;
  std::size_t room = any_amount;  // bytes that it takes from now on
  bool breaks_when_full = false;  // it breaks when it has taken them
  bool lingers = true;            // result of Stream::end()
  bool acknowledged = false;

  std::string received;
  std::uint32_t watched = readable;
  bool destroyed = false;
};

// A send: the client, and how many requests the worker had run by then.
struct Sent {
  std::uint64_t id = 0;
  std::uint64_t requests_before = 0;
  bool operator==(const Sent&) const = default;
};

// The events of all streams of a world.
struct Happenings {
  const command::WorkerStats& stats;
  std::vector<Sent> sent{};
  int destroyed = 0;
};

class ScriptedStream final : public Stream {
 public:
  ScriptedStream(Peer& peer, std::uint64_t id, Happenings& happenings)
      : peer_(peer), id_(id), happenings_(happenings) {}
  ~ScriptedStream() override {
    peer_.destroyed = true;
    ++happenings_.destroyed;
  }
  ScriptedStream(const ScriptedStream&) = delete;
  ScriptedStream& operator=(const ScriptedStream&) = delete;

  Transfer receive(std::span<char> into) override {
    if (peer_.broken) return {.status = Status::failed};
    if (peer_.to_send.empty()) return {.status = peer_.ended ? Status::ended : Status::again};
    const std::size_t count = std::min(into.size(), peer_.to_send.size());
    std::memcpy(into.data(), peer_.to_send.data(), count);
    peer_.to_send.erase(0, count);
    return {.status = Status::done, .byte_count = count};
  }
  Transfer send(std::string_view bytes) override {
    if (peer_.broken) return {.status = Status::failed};
    const std::size_t count = std::min(peer_.room, bytes.size());
    if (count == 0) return {.status = peer_.breaks_when_full ? Status::failed : Status::again};
    if (peer_.room != Peer::any_amount) peer_.room -= count;
    peer_.received += bytes.substr(0, count);
    happenings_.sent.push_back({.id = id_, .requests_before = happenings_.stats.requests.get()});
    return {.status = Status::done, .byte_count = count};
  }
  void watch(std::uint32_t events) override { peer_.watched = events; }
  bool end() override { return peer_.lingers; }
  [[nodiscard]] bool all_is_acknowledged() const override { return peer_.acknowledged; }

 private:
  Peer& peer_;
  std::uint64_t id_;
  Happenings& happenings_;
};

// The environment has a session of its own, which is no client.
struct SchedulerWorld : SessionWorld {
  explicit SchedulerWorld(std::size_t client_count = 1)
      : scheduler(environment, {.left = [this] { ++left; },
                                .gone =
                                    [this] {
                                      ++gone;
                                      CHECK(happenings.destroyed == gone);
                                    },
                                .buffers_grew = [this] { buffers_grew(); }}) {
    services.logs = ground.recording.all_logs();
    for (std::size_t i = 0; i < client_count; ++i) add();
  }

  Client& add(bool authenticated = true) {
    const std::uint64_t id = peers.size() + 1;
    peers.push_back(std::make_unique<Peer>());
    command::ClientState state = client(environment.services, authenticated);
    state.id = id;
    state.connected_at = StandingClock::now();
    const GateEntered inside(environment.gate, environment.gate_side);
    clients.push_back(
        &scheduler.add(std::make_unique<ScriptedStream>(*peers.back(), id, happenings), std::move(state)));
    return *clients.back();
  }

  [[nodiscard]] Peer& peer(std::size_t index = 0) { return *peers[index]; }
  [[nodiscard]] State state(std::size_t index = 0) const { return Scheduler::state_of(*clients[index]); }
  [[nodiscard]] std::uint64_t id(std::size_t index = 0) const { return index + 1; }

  // A turn in which these clients are ready, after each has sent these bytes.
  void turn(const std::vector<std::string>& bytes) {
    scheduler.begin_turn(progress);
    for (std::size_t i = 0; i < bytes.size(); ++i) {
      if (bytes[i].empty()) continue;
      peer(i).to_send += bytes[i];
      scheduler.ready(*clients[i], readable);
    }
    finish();
  }
  void finish() {
    scheduler.end_turn();
    scheduler.release_replies(progress);
  }
  // A turn in which these events have happened to one client.
  void happens(std::uint32_t events, std::size_t index = 0) {
    scheduler.begin_turn(progress);
    scheduler.ready(*clients[index], events);
    finish();
  }

  // The figure of the first client that does not linger; 0 when there is none.
  [[nodiscard]] std::uint64_t bytes_unsent() {
    const GateClosed closed(ground.gate);
    std::vector<command::ClientState*> states;
    scheduler.collect(states);
    return states.empty() ? 0 : states.front()->bytes_unsent;
  }

  [[nodiscard]] std::string received(std::size_t index = 0) {
    return std::exchange(peer(index).received, {});
  }

  std::function<void()> buffers_grew = [] {};
  int left = 0;
  int gone = 0;
  std::uint64_t progress = 0;  // of the journal
  Happenings happenings{environment.stats};
  std::vector<std::unique_ptr<Peer>> peers;
  std::vector<Client*> clients;  // some may be gone
  Scheduler scheduler;
};

}  // namespace sepal::session::test
