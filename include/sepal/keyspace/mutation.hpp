// The changes of a keyspace that a record keeps, as values: one struct for each kind. Adds are apart
// (MutationLog::added). The log, its bytes and their replay know a kind by its struct.
//
// A value owns nothing: its views are valid as long as its maker says. Each kind has either `key`, or
// `database`, or concerns all databases.
#pragma once

#include <sepal/keyspace/deadline.hpp>
#include <sepal/keyspace/mirrors.hpp>
#include <sepal/keyspace/part_list.hpp>
#include <sepal/value/value.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <variant>

namespace sepal::keyspace {

// The heads of Made and Changed fit into what record_bytes_max leaves for an operation's own fields.
inline constexpr std::size_t recorded_head_bytes_max = 64;

// What a Remade says beside its key: a head, and the list of the parts, which has room for one key of any
// length.
inline constexpr std::size_t remade_head_bytes_max = std::size_t{64} << 10;
inline constexpr std::size_t remade_parts_bytes_max = (std::size_t{64} << 10) + part_head_bytes;

struct DatabaseKey {
  std::uint32_t database = 0;
  std::string_view key;
};

// Where the image of a value that came whole is: a file that is synced before any record names it.
struct ImageFile {
  std::uint64_t number = 0;  // in its name, from 1; 0: in no file
  std::uint64_t seal = 0;    // over all of its checksums
};

// A value that came whole, not by recorded adds. It has an image or a file.
struct AdoptedValue {
  std::span<const std::byte> image{};  // value/image.hpp
  ImageFile file{};
  Deadline deadline = no_deadline;
};

// The key, which was free, names a new value. `head` is what its kind says of a value that is made
// (KindRow::make_recorded). A deadline is recorded as Expires right behind it, in one piece with it. So no
// crash leaves the value without its deadline, and a reader of the record finds none here.
struct Made {
  DatabaseKey key{};
  value::Kind kind{};
  std::span<const std::byte> head{};  // at most recorded_head_bytes_max
  Deadline deadline = no_deadline;
};

// The value under the key has changed in place, or another of its kind has taken its place
// (KindRow::apply). If the row says so (made_by_change), the key may have named nothing. The record has
// `head` and `bytes` one behind the other, and a reader gets both in `bytes`.
struct Changed {
  DatabaseKey key{};
  value::Kind kind{};
  std::uint8_t what = 0;               // the kind's own number
  std::span<const std::byte> head{};   // at most recorded_head_bytes_max
  std::span<const std::byte> bytes{};  // at most written_bytes_max
};

struct Removed {
  DatabaseKey key{};
};

// From now on this is the key's deadline, or no_deadline. A key that is removed because it is past its
// deadline is Removed, so that a replay needs no clock.
struct Expires {
  DatabaseKey key{};
  Deadline deadline = no_deadline;
};

// The value is under `target`, in the same database; what was there is gone. The deadline goes with it.
struct Renamed {
  DatabaseKey key{};
  std::string_view target{};
};

// The value is under the key; what was there is gone.
struct Adopted {
  DatabaseKey key{};
  AdoptedValue value{};
};

// The key names a value that was made of other values of its database, all of one kind: it has the shape and
// the counts of `head`, the head of an image (value/image.hpp), and the bits of all of them. If the key
// itself is among the parts, the new value goes on in the place of the old one, with its deadline and its
// mirror; else what was there is gone. When this is repeated, a part may have had later adds: then the value
// has these too.
struct Remade {
  DatabaseKey key{};
  std::span<const std::byte> head{};
  std::span<const std::byte> parts{};  // part_list.hpp
  // Not recorded. It begins a frame, because there is much to read: a replay makes such a value outside the
  // gate.
  bool takes_long = false;
};

// The key moved to the same key of another database, which was free. The deadline goes with the value.
struct Moved {
  DatabaseKey key{};
  std::uint32_t to_database = 0;
};

// Each of the two databases has the keys of the other.
struct Swapped {
  std::uint32_t database = 0;
  std::uint32_t other = 0;
};

// A mirror begins, has another state, or ends (off, without a target). A mirror that ends because one
// end goes has no record of its own: the record of that change implies it. Items for a target are recorded as
// adds to the target's key.
struct Mirrored {
  DatabaseKey key{};  // the source
  std::string_view target{};
  MirrorState state = MirrorState::whole;
  std::uint64_t items_before = 0;  // as in Mirror
};

struct Flushed {
  std::uint32_t database = 0;
};

struct FlushedAll {};

using Mutation = std::variant<Made, Changed, Removed, Expires, Renamed, Adopted, Remade, Moved, Swapped,
                              Mirrored, Flushed, FlushedAll>;

}  // namespace sepal::keyspace
