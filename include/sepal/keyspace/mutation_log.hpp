// The keyspace's changes, told to the journal as they happen.
//
// Each worker has a log of its own, and so have the threads `expiry` and `adopter`. The logs share one lock,
// the journal's: a log takes it for the copy of a frame. A reader that applies the changes in the order in
// which they were told gets the same keyspace. Adds of different workers commute. Other changes happen with
// the gate closed, when all logs are committed; or they concern one key, and happen inside the shared gate
// with the lock of the key (Mutator::KeyLock).
//
// Inside the shared gate a log *gathers* the changes of keys, so that one frame has those of a batch. Another
// worker may see such a change before it is in the record. Before it records something that has to come
// behind it, it has the log append what it has gathered:
//
//   - a change of the same key, or of one with the same lock (Mutator);
//   - an add to a value whose record is not there yet (value::Value::unrecorded);
//   - the answer "known already" to an add (seal_record).
//
// The record of a removal comes behind those of all adds to the value, and that of a growth behind those of
// the adds to the layers before: see wait_for_adds().
//
// An add is recorded after its bits are set, because only then is the item known to be new. So there is an
// instant in which another worker sees the item, and its record is nowhere. A worker that answers "known
// already" to an add must therefore hold that answer until the recordings of other workers that were under
// way have ended; begin_add() and added() are the two ends of a recording.
#pragma once

#include <sepal/base/choice.hpp>
#include <sepal/base/hash.hpp>
#include <sepal/keyspace/mutation.hpp>

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

namespace sepal::keyspace {

// What the journal promises for a change of which a client was told (storage/journal/journal.hpp).
enum class JournalPolicy : std::uint8_t { off, everysec, always };

// The most that one call of a MutationLog's member takes in the record, beside the bytes of the keys it
// names, and of the fingerprints or the image.
inline constexpr std::uint64_t record_bytes_max = 128;

// Images up to this length stand in the record itself.
inline constexpr std::uint64_t recorded_image_bytes_max = std::uint64_t{64} << 10;

// More bytes of a string are told as several changes.
inline constexpr std::size_t written_bytes_max = std::size_t{64} << 10;

// Confined to a worker, inside the gate. None of its members asks the disk for anything; a store into a page
// that is not prepared may wait for the file system (storage/disk.hpp). added() and record() may wait for the
// journal's lock.
class MutationLog {
 public:
  virtual ~MutationLog() = default;

  // Whether a record is kept. When not, nothing below is called.
  [[nodiscard]] virtual bool recording() const = 0;

  // --- shared ---------------------------------------------------------------------------------------------

  // The bits of items that may be new are about to be set. A fence follows: another worker sees that this add
  // has begun, or this worker sees that the value is held (value::Value::hold).
  virtual void begin_add() = 0;
  // Each of these items was new to the filter, and the newest layer counts it now. More will follow.
  virtual void added_some(DatabaseKey key, std::span<const Fingerprint> fingerprints) = 0;
  // The same for the last of them; there may be none. Ends what begin_add() began.
  virtual void added(DatabaseKey key, std::span<const Fingerprint> fingerprints) = 0;
  // Waits until the adds of other workers that are under way have ended. Inside the shared gate, with a lock
  // of a key or none: an add waits for no such lock.
  virtual void wait_for_adds() = 0;
  // The change of a key, with its lock held: it will be made at once, and is gathered. Its views are valid
  // during the call.
  virtual void gather(const Mutation& change) = 0;
  // The same for items that were added to a value that no other worker has found yet.
  virtual void gather_added(DatabaseKey key, std::span<const Fingerprint> fingerprints) = 0;
  // Such a value is about to get its key, and all about it was gathered: until the append it is unrecorded.
  // The caller keeps it alive until then.
  virtual void gathered_all(const value::Value& made) = 0;
  // What was gathered is in the record when this returns. Any thread. The worker calls it
  // before it leaves the gate.
  virtual void append() = 0;
  // Has the logs of the other workers append.
  virtual void append_others() = 0;

  // --- exclusive ------------------------------------------------------------------------------------------

  // The change was made. Its views are valid during the call.
  virtual void record(const Mutation& change) = 0;
};

// What a worker's log answers before a request that changes something.
enum class Admission : std::uint8_t {
  granted,
  refused,  // changes are not taken now, because the record cannot be kept
  later,    // there is no room for the change yet, but soon will be
  never,    // the change is larger than the record may ever become; other changes are taken
};

// What a change does to the disk in the end. On a full disk, some room is kept for changes that free room.
enum class Change : std::uint8_t { any, frees };

// A worker's log, and what the worker asks and tells it around its requests and batches. Confined to the
// worker. It waits for the disk no more than a MutationLog does.
class WorkerLog : public MutationLog {
 public:
  // Called inside the gate, while recording(), before a request that may record up to `bytes_max`:
  // record_bytes_max for each call, and the bytes of keys and fingerprints. After `later` the worker is told
  // when to ask again. Touches nothing shared as long as the worker's reserve lasts.
  [[nodiscard]] virtual Admission admit(std::uint64_t bytes_max, Change change) = 0;
  [[nodiscard]] Admission admit(std::uint64_t bytes_max) { return admit(bytes_max, Change::any); }
  // Called with the gate closed, before it opens. Everything told since it closed is then in the record.
  virtual void commit() = 0;
  // Called with the gate closed, and both before it opens. After a crash, what is told between them is in the
  // record whole or not at all. No filter that is in a file is adopted between them.
  virtual void begin_group() = 0;
  virtual void end_group() = 0;
  // Called outside the gate, after a batch of which a request was admitted. If the batch answered an add with
  // "known already", this returns only when no other worker is still between begin_add() and added() with
  // what that add may have seen. Returns the journal position that must be durable before the replies go out,
  // where replies wait for that; else 0.
  [[nodiscard]] virtual std::uint64_t seal_record(bool answered_known) = 0;
};

}  // namespace sepal::keyspace

template <>
inline constexpr std::array<std::string_view, 3> sepal::choice_names<sepal::keyspace::JournalPolicy>{
    "off", "everysec", "always"};
