// What the connections of a round ask first, before any of them runs. Requests that came alone and differ in
// their item only are run together, as if they were neighbours in one pipeline: the key is found once, the
// waits for memory overlap, and the journal gets one record. Of the others the memory is asked for that they
// will wait for.
//
// Clients of different connections cannot tell in which order their requests ran.
#pragma once

#include <sepal/command/dispatcher.hpp>
#include <sepal/server/session.hpp>

#include <boost/container/static_vector.hpp>

#include <cstddef>
#include <span>

namespace sepal::server {

// Connections that are served in one round, at most.
inline constexpr std::size_t round_max = 16;

// Confined to its worker.
class FirstRequests {
 public:
  // Of sessions that have received, at most round_max, each once. They are to run next. Not inside the gate.
  static void look_ahead(const Session::Environment& environment, std::span<Session* const> sessions);

 private:
  explicit FirstRequests(const Session::Environment& environment) : environment_(environment) {}

  void gather(std::span<Session* const> sessions, LinesAhead& lines);
  void run(LinesAhead& lines);
  void settle();

  // Requests that are alike, side by side.
  struct Group {
    std::size_t first;
    std::size_t count;
  };

  const Session::Environment& environment_;
  boost::container::static_vector<Session*, round_max> sessions_;  // of requests_
  boost::container::static_vector<command::SingleRequest, round_max> requests_;
  boost::container::static_vector<Group, round_max> groups_;
  boost::container::static_vector<Session*, round_max> recorded_;
};

}  // namespace sepal::server
