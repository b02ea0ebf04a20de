// Looks at the first request of each session of a round, before any of them runs. Requests that came alone
// and differ in their item only run together here, as if they were neighbours in one pipeline: the key is
// found once, the waits for memory overlap, and the journal gets one record. For every other request, the
// memory that it will wait for is asked for.
//
// This changes no outcome that a client can see: requests of different connections have no order.
#pragma once

#include <sepal/command/run/context.hpp>
#include <sepal/session/session.hpp>

#include <boost/container/static_vector.hpp>

#include <cstddef>
#include <span>

namespace sepal::session {

// The most connections that one round serves.
inline constexpr std::size_t round_max = 16;

// Confined to its worker.
class FirstRequests {
 public:
  // `sessions` have received, are at most round_max, and each is in it once. Run them next. Not inside the
  // gate.
  static void look_ahead(const Session::Environment& environment, std::span<Session* const> sessions);

 private:
  explicit FirstRequests(const Session::Environment& environment) : environment_(environment) {}

  void gather(std::span<Session* const> sessions, LinesAhead& lines);
  void run(LinesAhead& lines);
  void seal_record();

  // Requests that run together; they are neighbours in requests_.
  struct Group {
    std::size_t first;
    std::size_t count;
  };

  const Session::Environment& environment_;
  boost::container::static_vector<Session*, round_max> sessions_;  // the session of each request
  boost::container::static_vector<command::Request, round_max> requests_;
  boost::container::static_vector<Group, round_max> groups_;
  boost::container::static_vector<Session*, round_max> recorded_;  // whose replies may wait for the journal
};

}  // namespace sepal::session
