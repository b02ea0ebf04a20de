// What the movers of filters and of strings share.
#pragma once

#include <sepal/base/result.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "tools/redis/migrate.hpp"
#include "tools/redis/redis_connection.hpp"
#include "tools/redis/remote_key.hpp"
#include "tools/shell/seed.hpp"

namespace sepal::tools {

// All outlive the mover. Both connections have selected the database.
struct MoveParts {
  RedisConnection& source;
  RedisConnection& target;
  MigrateReport& report;
  DeadlineQuestion how;                               // relative where one of the servers tells deadlines so
  std::function<void(std::uint64_t)> advance;         // the progress: so much weight is done
  std::function<Result<void>(std::uint32_t)> select;  // a database of the source, at both
};

// A key of the target under which a long value is made, piece after piece. It gets the right name when the
// value is whole. If a run is ended, the target removes it within an hour.
//
// Confined. Blocks. Errors of all members: io. A text that is returned is the target's refusal; empty: none.
class TemporaryKey {
 public:
  // Two runs at a time do not write into one key: the name is drawn. `target` outlives this object.
  explicit TemporaryKey(RedisConnection& target);

  [[nodiscard]] const std::string& name() const { return name_; }
  // Requests that give it another hour; the caller takes the reply. Each piece needs one.
  void add_hour();
  // Tells that the key was removed meanwhile. It has a deadline from the first piece on; a piece that comes
  // when it is gone makes it anew, without one.
  void add_question();
  Result<std::string> receive_loss();
  // Gives the value the name and the deadline of `source`.
  Result<std::string> finish(const RemoteKey& source);
  Result<void> remove();

 private:
  Result<std::string> rename(const RemoteKey& source);

  RedisConnection& target_;
  std::string name_;
};

// Receives so many replies. Returns the text of the first error among them; empty: there is none. Errors: io.
Result<std::string> first_error_of(RedisConnection& server, std::size_t count);

// A few of many things, each with the same probability, although their number is not known beforehand.
// Confined. Each candidate draws a place among all so far, and is kept if the place is one of the few.
template <class Thing>
class Reservoir {
 public:
  static constexpr std::size_t kept_max = 64;

  void offer(Thing thing) {
    const std::uint64_t place = std::uniform_int_distribution<std::uint64_t>(0, candidates_++)(random_);
    if (kept_.size() < kept_max) {
      kept_.push_back(std::move(thing));
    } else if (place < kept_max) {
      kept_[static_cast<std::size_t>(place)] = std::move(thing);
    }
  }
  [[nodiscard]] const std::vector<Thing>& kept() const { return kept_; }

 private:
  std::mt19937_64 random_{drawn_seed()};
  std::uint64_t candidates_ = 0;
  std::vector<Thing> kept_;
};

}  // namespace sepal::tools
