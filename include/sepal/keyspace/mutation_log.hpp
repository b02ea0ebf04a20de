// What changes the keyspace, told as it happens to whoever keeps a record of it (the journal).
//
// Each worker has a log of its own, so that what it adds inside its side of the gate meets nobody. Told in
// this order and applied in this order, the changes lead from the keyspace at the one moment to that at the
// other: adds of different workers commute, and everything else happens with the gate closed, when all logs
// are settled (committed).
//
// An add is recorded after its bits are set, because only then it is known to be new. So there is an instant
// in which another worker sees the item and its record is nowhere. A worker that answers "known already" to
// an add must therefore not send that answer before the recording of others that was under way has ended;
// begin_add() and added() are the two ends of it.
#pragma once

#include <sepal/base/hash.hpp>
#include <sepal/filter/filter.hpp>
#include <sepal/filter/layer_plan.hpp>
#include <sepal/keyspace/deadline.hpp>
#include <sepal/keyspace/mirrors.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace sepal::keyspace {

struct DatabaseKey {
  std::uint32_t database = 0;
  std::string_view key;
};

// What a call of a MutationLog's member takes at most in the record, beside the bytes of the keys it names
// and those of the fingerprints or the image.
inline constexpr std::uint64_t record_bytes_max = 128;

// Where the bits of a filter that came whole are: a file that was synced before anybody names it.
struct ImageFile {
  std::uint64_t number = 0;  // of its name, from 1; 0: in no file
  std::uint64_t seal = 0;    // over all of its checksums
};

// A filter that did not grow by what was recorded. It has an image or a file.
struct AdoptedFilter {
  std::span<const std::byte> image{};  // filter/image.hpp
  ImageFile file{};
  Deadline deadline = no_deadline;
};

// Images up to here stand in the record.
inline constexpr std::uint64_t recorded_image_bytes_max = std::uint64_t{64} << 10;

// Confined to a worker, inside the gate. None of its members blocks.
class MutationLog {
 public:
  virtual ~MutationLog() = default;

  // Whether anybody keeps a record. When not, nothing below is called.
  [[nodiscard]] virtual bool recording() const = 0;

  // --- shared ---------------------------------------------------------------------------------------------

  // Bits of items that may be new are about to be set.
  virtual void begin_add() = 0;
  // Ends what begin_add() began. Each of these was new to the filter and is now counted by its newest layer;
  // there may be none.
  virtual void added(DatabaseKey key, std::span<const Fingerprint> fingerprints) = 0;

  // --- exclusive ------------------------------------------------------------------------------------------

  virtual void created(DatabaseKey key, const filter::FilterOptions& options,
                       const filter::LayerPlan& first_layer) = 0;
  // The filter has a new newest layer.
  virtual void grown(DatabaseKey key, const filter::LayerPlan& layer) = 0;
  virtual void removed(DatabaseKey key) = 0;
  // From now on this is the key's deadline, or it has none. A key that is removed because it is past it is
  // told as removed, so that nobody needs a clock to repeat what was recorded.
  virtual void expires(DatabaseKey key, Deadline deadline) = 0;
  // What was under `to` is gone. The deadline goes with the filter.
  virtual void renamed(std::uint32_t database, std::string_view from, std::string_view to) = 0;
  // The filter is under the key; what was there is gone.
  virtual void adopted(DatabaseKey key, const AdoptedFilter& filter) = 0;
  // To the same key of another database, which was free. The deadline goes with the filter.
  virtual void moved(DatabaseKey from, std::uint32_t to_database) = 0;
  virtual void swapped(std::uint32_t database, std::uint32_t other) = 0;
  // A mirror begins, has another state, or ends (off, without a target). That one ended because a key was
  // removed, renamed or replaced is not told. What is added to a target is told as `added` to its key.
  virtual void mirrored(const Mirror& mirror) = 0;
  virtual void flushed(std::uint32_t database) = 0;
  virtual void flushed_all() = 0;
};

// What the log of a worker answers before a request that changes something.
enum class Admission : std::uint8_t {
  granted,
  refused,  // changes are not taken now: the record cannot be kept
  later,    // there is no room for it yet, and soon will be
};

// A worker's log, and what the worker asks and tells it around its requests and batches. Confined to the
// worker. None of its members waits for a disk.
class WorkerLog : public MutationLog {
 public:
  // Inside the gate, while recording(), before a request that may record up to `bytes_max`: record_bytes_max
  // for each call, and the bytes of keys and fingerprints. After `later` the worker is told when to ask
  // again. Touches nothing shared as long as the worker's reserve lasts.
  [[nodiscard]] virtual Admission admit(std::uint64_t bytes_max) = 0;
  // With the gate closed, before it opens: everything told since it closed is in the record.
  virtual void commit() = 0;
  // Outside the gate, after a batch of which something was admitted. Where the batch answered an add with
  // "known already", returns only when no other worker is between begin_add() and added() with what it may
  // have seen. The position that must be durable before the replies go out, where replies wait for that; else
  // 0.
  [[nodiscard]] virtual std::uint64_t settle(bool answered_known) = 0;
};

}  // namespace sepal::keyspace
