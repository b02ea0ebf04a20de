#include <sepal/base/assert.hpp>
#include <sepal/command/run/dispatcher.hpp>
#include <sepal/session/first_requests.hpp>

#include <chrono>
#include <cstdint>
#include <utility>

namespace sepal::session {

using command::Dispatcher;

static_assert(round_max <= Dispatcher::lone_requests_max);

void FirstRequests::look_ahead(const Session::Environment& environment, std::span<Session* const> sessions) {
  SEPAL_ASSERT(sessions.size() <= round_max, "more sessions than a round has");
  FirstRequests requests(environment);
  // The gate opens before the sessions run: else a thread that closes it would wait for all batches of the
  // round. So a filter that is found here may be gone when its request runs, and the request looks it up
  // again.
  {
    const GateEntered inside(environment.gate, environment.gate_side);
    LinesAhead lines;
    requests.gather(sessions, lines);
    lines.ask();
    // The lines that were asked for arrive while the groups run. A group that cannot run adds its own lines.
    requests.run(lines);
    lines.ask();
  }
  // The gate is open: seal_record() may wait for records of other workers.
  requests.seal_record();
}

// Makes groups of the requests that are alike. A request without an equal runs by itself later.
void FirstRequests::gather(std::span<Session* const> sessions, LinesAhead& lines) {
  struct Lone {
    Session* session;
    command::Request request;
    bool taken = false;
  };
  boost::container::static_vector<Lone, round_max> lone;
  for (Session* const session : sessions) {
    session->look_ahead();
    if (const auto request = session->lone_request()) {
      lone.push_back({.session = session, .request = *request});
    } else {
      session->collect_lines(lines);
    }
  }
  for (const Lone& first : lone) {
    if (first.taken) continue;
    const std::size_t begin = requests_.size();
    for (Lone& each : lone) {
      if (each.taken || !Dispatcher::alike(first.request, each.request)) continue;
      each.taken = true;
      sessions_.push_back(each.session);
      requests_.push_back(each.request);
    }
    groups_.push_back({.first = begin, .count = requests_.size() - begin});
    if (groups_.back().count > 1) continue;
    // The request stays in requests_, where no group names it.
    groups_.pop_back();
    first.session->collect_lines(lines);
  }
}

void FirstRequests::run(LinesAhead& lines) {
  SEPAL_ASSERT(requests_.size() == sessions_.size(), "each request that runs together has a session");
  if (groups_.empty()) return;
  Dispatcher& dispatcher = environment_.dispatcher;
  const WallTime wall_now = std::chrono::system_clock::now();
  // One look at the clock ends a group and begins the next one.
  SteadyTime now = environment_.steady_now();
  for (const Group& group : groups_) {
    const auto requests = std::span(requests_).subspan(group.first, group.count);
    SEPAL_ASSERT(group.count > 1 && requests.front().spec != nullptr,
                 "a group of requests has several members and a row");
    const bool were_run = dispatcher.run_lone_requests(requests, {.now = wall_now, .steady_now = now});
    const SteadyTime began = std::exchange(now, environment_.steady_now());
    const auto their_sessions = std::span(sessions_).subspan(group.first, group.count);
    if (!were_run) {
      for (const Session* const session : their_sessions) session->collect_lines(lines);
      continue;
    }
    const command::CommandSpec& spec = *requests.front().spec;
    dispatcher.count_calls(spec, group.count, now - began);
    if (dispatcher.is_slow(now - began))
      dispatcher.note_slow({.client = requests.front().client,
                            .spec = spec,
                            .words = requests.front().words,
                            .times = group.count,
                            .duration = now - began,
                            .now = wall_now});
    for (Session* const session : their_sessions) {
      session->lone_request_ran(now);
      if (spec.flags.has(command::Flag::write)) recorded_.push_back(session);
    }
  }
}

// Seals the record of all groups, as a session does for its batch. The groups share one record of the
// dispatcher, so it must be taken before any session runs a batch. Outside the gate, as
// WorkerLog::seal_record() asks.
void FirstRequests::seal_record() {
  const command::BatchRecord record = environment_.dispatcher.take_record();
  if (record.log == nullptr) return;
  const std::uint64_t position = record.log->seal_record(record.answered_known);
  for (Session* const session : recorded_) session->hold_lone_reply(position);
}

}  // namespace sepal::session
