// A stream that a worker watches, as the worker sees it: its client may move to another worker.
#pragma once

#include <sepal/base/result.hpp>
#include <sepal/session/scheduler.hpp>
#include <sepal/session/stream.hpp>

#include "server/readiness.hpp"

namespace sepal::server {

class UnreadStreams;

// Confined to the worker of its client.
class WatchedStream : public session::Stream {
 public:
  // Call it before any other member, also after leave(): from then on `readiness` tells the stream's events
  // with `owner`. It is not part of the constructor, because the client needs the stream first. Errors: io.
  virtual Result<void> watch_for(session::Client& owner, Readiness& readiness, UnreadStreams& unread) = 0;
  // Ends that: the stream has no owner, and is ready to be watched by another worker.
  virtual void leave() = 0;
};

}  // namespace sepal::server
