// What the key table, the journal, a save, DUMP and the tools ask of a value of any kind: one row of
// functions for each kind. keyspace and storage know values by these rows alone.
//
// Three forms of a value as bytes:
//
//     image     head | body            all of a value: saves, copies, adopted files. The head says what the
//                                      body means; the body is read and written by offset.
//     records   made, changed, added   what the journal has: the value is made, something in it changes,
//                                      entries of 16 bytes are added. Their bytes are the kind's own.
//     payload   DUMP and RESTORE       a value of Redis's RDB format
//
// How an image is copied while clients go on. freeze() runs with the gate closed, and fixes the instant. The
// body is copied later, outside the gate, while the value may change. Each kind says what makes that right:
//
//     a Bloom filter   nothing is held. Bits only go from 0 to 1, so live bits have all that was added before
//                      the instant. The counts among the numbers are those of the instant.
//     a string         nothing is held either. The copy may mix old and new bytes. For a save that is right,
//                      because the replay writes all changes since the cut again, in their order
//                      (Repeat::again). A COPY or DUMP of a long string is such a mixture, and
//                      docs/protocol.md says so.
//     a filter that    each part of the body is exact at a number of its own, which it has beside it. For a
//       deletes        save the replay adds what has a higher number (Repeat::again).
//     a small value    the body is copied within freeze(), and is the Still.
//     a large one      the Still is known to the value: before it changes some of its bytes, the value gives
//                      the old ones to the Still. The end of the Still ends that.
//
// A cuckoo filter of RedisBloom does the last (cuckoo/foreign/redis_filter.hpp). The list of the value's
// Stills is behind a pointer that value and Still share: freeze() has a const value, and a Still may end on
// the reader's thread, outside the gate, while a worker changes the value. A lock of its own guards the list
// and the old bytes. A worker takes it inside the gate, before it changes bytes, and copy_body() takes it for
// each piece; neither takes another lock inside it. The old bytes are counted beside all values
// (value/kept_bytes.hpp): one copy of the value is their limit.
//
// Words: *shared* and *exclusive* are those of the gate (base/gate.hpp). No function of a row throws, blocks
// or asks a disk. Bytes that come from outside are believed by none of them.
#pragma once

#include <sepal/base/hash.hpp>
#include <sepal/base/result.hpp>
#include <sepal/value/figures.hpp>
#include <sepal/value/value.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace sepal::value {

// Which records a replay applies to a value that an image brought.
enum class Repeat : std::uint8_t {
  // Those behind the journal position of the freeze. The image has exactly what came before it, perhaps with
  // adds from behind it whose repetition does no harm.
  once,
  // All from the cut on, in their order, because the image may have changes from behind the freeze. A record
  // says what is there afterwards, or the value knows it by its number: so a second time changes nothing, and
  // a torn image is mended.
  again,
};

// What fills a value that is made of an image. A request waits for the memory that it touches first, so
// memory that requests fill begins in small pages.
enum class FilledBy : std::uint8_t { load, requests };

// Keeps the bytes of an instant readable, for one reader. Its end, on any thread, ends that.
class Still {
 public:
  virtual ~Still() = default;
};

// What all values of a kind share within one keyspace, such as plans that were made. The kind's writer guards
// it as it needs.
class KindState {
 public:
  virtual ~KindState() = default;
};

// A value at an instant. All three live as long as the reader reads.
struct FrozenView {
  const Value& value;
  std::span<const std::uint64_t> numbers;  // what freeze() has written
  const Still* still = nullptr;            // what freeze() has returned
};

// What the head of an image says.
struct Shape {
  std::size_t head_bytes = 0;
  std::uint64_t body_bytes = 0;  // a multiple of 8
  std::uint64_t item_count = 0;  // as KindRow::item_count
};

// Called now and then with the number of bytes done; false gives up. May be empty.
using GoOn = std::function<bool(std::uint64_t bytes_done)>;

// Asks for memory before it is allocated. Errors: memory_limit. May be empty.
using Hold = std::function<Result<void>(std::uint64_t byte_count)>;

// Memory of a value that requests fill. It begins in small pages, because the first touch of a page takes a
// request's time. In huge pages look-ups are quicker, so the thread `pages` moves it there, a piece of a huge
// page's size at a time, once requests have touched all of it. The functions are called while the thread
// holds the value, outside the gate as well.
struct SmallPages {
  const void* memory = nullptr;   // tells it from all other memory of values that are held
  std::uint64_t piece_count = 0;  // at least 1
  // Whether requests have touched nearly all of a piece.
  bool (*in_use)(const void* memory, std::uint64_t piece);
  // Moves a piece, now or when the system can. By one thread, each piece once, in their order.
  void (*move)(const void* memory, std::uint64_t piece);
  // Keeps the memory where the value may drop it before its own end; else null.
  std::shared_ptr<const void> owner = nullptr;
};

struct ModuleType;

// A kind's values in the RDB format of Redis: DUMP, RESTORE, and the type of sepal.so.
struct Payload {
  // Whether the payload's first bytes are those of this kind.
  bool (*begins)(std::span<const std::byte> payload);
  // The most bytes that payload and value can take together. Looks at the payload's begin only.
  std::uint64_t (*bytes_max)(std::span<const std::byte> payload, std::uint32_t layers_max);
  // Errors: damaged (a changed payload), out_of_range (intact, but no possible value), layer_limit,
  // too_large, out_of_memory, mapping_limit, those of `hold`.
  Result<ValuePtr> (*read)(std::span<const std::byte> payload, const Limits& limits, const Hold& hold);
  // The length of what write() gives, but for a few bytes.
  std::uint64_t (*byte_count)(const FrozenView& value);
  // The memory that write() takes.
  std::uint64_t (*memory_bytes)(const FrozenView& value);
  // The payload in pieces. Outside the gate. Errors: io (`go_on` has returned false).
  Result<std::vector<std::string>> (*write)(const FrozenView& value, const GoOn& go_on);
  const ModuleType* type = nullptr;  // value/module_type.hpp; null: sepal.so has no such values
};

struct KindRow {
  Kind kind;
  std::string_view type_name;  // what TYPE answers, and SCAN's TYPE takes
  std::string_view word;       // for people, singular: "filter"

  // --- life -----------------------------------------------------------------------------------------------

  // Deletes the object, which is of this kind. Any thread.
  void (*destroy)(Value* value);
  // Shared. All memory of the value, its header included. Without settle() it changes only with the gate
  // closed, or with the lock of its key.
  std::uint64_t (*byte_count)(const Value& value);
  // With the lock of its key, or with the gate closed. The value loses its key: returns byte_count(). From
  // now on the value tells the keyspace of no bytes, also not for workers that have found it before. Null:
  // byte_count() says it all.
  std::uint64_t (*settle)(Value& value) = nullptr;
  // Shared. The items that the value counts, for sums over all values; 0 for kinds that have none.
  std::uint64_t (*item_count)(const Value& value);
  // Shared. Grows with each change, and says nothing else: WATCH compares it, and with identity() it tells
  // whether a file still has the value's bytes. A kind whose identity() is 0 may leave out the changes that
  // are recorded as `changed`: no file of it is kept, and watches are told of these directly.
  std::uint64_t (*changes)(const Value& value);
  // Shared. A number that no other value of this process has or had. 0: the value has none, so a save writes
  // it anew each time.
  std::uint64_t (*identity)(const Value& value);
  // With the gate closed, with the lock of its key, or no other thread knows the value. It comes under a key,
  // or has grown. It prepares what requests of `worker_count` workers need; 0: no worker asks it. True if it
  // has memory in small pages (small_pages). Null: there is nothing to prepare.
  bool (*prepare)(Value& value, std::uint32_t worker_count);
  // Shared, or no key names the value. Appends its memory that has not moved to huge pages yet. Null: a value
  // of this kind has none.
  void (*small_pages)(const Value& value, std::vector<SmallPages>& to) = nullptr;
  // Shared. What OBJECT ENCODING answers; null: "raw".
  std::string_view (*encoding)(const Value& value);

  // Any thread. From now on values of this kind take at most their share of the mappings that the system
  // allows the process. Null: a value of this kind takes few.
  void (*limit_mappings)(std::uint64_t process_max) = nullptr;
  // Makes the state of a keyspace. Null: the kind has none.
  std::unique_ptr<KindState> (*make_state)();

  // --- its image ------------------------------------------------------------------------------------------

  // Whether these are the first bytes of a head of this kind, of whatever version. The later kinds
  // are asked first: what one of them takes, no earlier one is asked about.
  bool (*begins_image)(std::span<const std::byte> bytes);
  // Reads a head, which may have any bytes behind it. Errors: damaged, unsupported_version, layer_limit.
  Result<Shape> (*read_head)(std::span<const std::byte> bytes, std::uint32_t layers_max);
  // Makes a value of this head, whose body is still zeros. Errors: those of read_head; out_of_range (the head
  // contradicts itself), too_large, out_of_memory, mapping_limit.
  Result<ValuePtr> (*make)(std::span<const std::byte> head, const Limits& limits, FilledBy filled_by);
  // Sets bytes of the body. The offset and the length are multiples of 8 within it. Several threads may set
  // different bytes at once. No other thread knows the value.
  void (*fill_body)(Value& value, std::uint64_t offset, std::span<const std::byte> from);
  // The body is whole: checks it. Errors: damaged, out_of_memory. Null: any bytes are right.
  Result<void> (*complete)(Value& value);

  // Exclusive: this is the instant. Appends what the functions below need to `numbers`, usually one number or
  // two: a save freezes thousands of values while the gate is closed. Returns what holds the bytes of the
  // instant; null where live bytes do.
  std::unique_ptr<Still> (*freeze)(const Value& value, std::vector<std::uint64_t>& numbers);
  // The next four may be called outside the gate.
  std::size_t (*head_bytes)(const FrozenView& value);
  std::uint64_t (*body_bytes)(const FrozenView& value);
  // `into` has head_bytes().
  void (*encode_head)(const FrozenView& value, std::span<std::byte> into);
  // Copies bytes of the body. The offset and the length are multiples of 8 within it.
  void (*copy_body)(const FrozenView& value, std::uint64_t offset, std::span<std::byte> to);

  // --- its records ----------------------------------------------------------------------------------------

  Repeat repeat;
  // A `changed` for a key that names nothing makes an empty value first: make_recorded() of no bytes.
  bool made_by_change;
  // Repeats `made`: the value as it was when it was made, with the shape of that time. Errors: damaged,
  // out_of_range (no value could be like that), too_large, out_of_memory, mapping_limit.
  Result<ValuePtr> (*make_recorded)(std::span<const std::byte> head, const Limits& limits);
  // Exclusive. Repeats `changed`. Returns null if the value was changed in place, else the value that takes
  // its place under the key. Errors: damaged (there is no such change), out_of_range (this value could not
  // change so), too_large, out_of_memory, mapping_limit.
  Result<ValuePtr> (*apply)(Value& value, std::uint8_t what, std::span<const std::byte> bytes,
                            const Limits& limits);
  // Exclusive. Repeats `added`: entries that the value has counted as new. Their meaning is the kind's own.
  // Workers add under the shared gate, and the journal has their adds in any order: so adds must commute.
  // Where they do not, a request closes the gate, and records `changed`.
  // False, with nothing or some of it done, where the value could not have taken them: the journal is damaged
  // then. Null: the kind adds none.
  bool (*add)(Value& value, std::span<const Fingerprint> entries);
  std::string_view add_refused;  // the text of that damage: "from here on ..."

  // --- values made of others ------------------------------------------------------------------------------

  // Makes a value whose image has this head, with the bits of these values of the kind, of each as much as
  // `extent` says: so many layers from the oldest on, 16 bits, and 16 bits of the kind's own. No thread
  // changes the structure of the values meanwhile; adds may or may not be in the new one. Outside the gate as
  // well. Errors: damaged (no value of these parts has that head), too_large, out_of_memory, mapping_limit,
  // io (given up). Null: the kind makes none.
  struct Part {
    const Value* value = nullptr;
    std::uint32_t extent = 0;
  };
  Result<ValuePtr> (*unite)(std::span<const std::byte> head, std::span<const Part> parts,
                            const Limits& limits, const GoOn& go_on) = nullptr;

  // --- what is told of it ---------------------------------------------------------------------------------

  // Shared.
  void (*tell)(const Value& value, Figures& to);
  // One line for people, without a full stop: "a filter with 3 items in 1 layers".
  std::string (*sentence)(const Value& value);
  // The figures of a head; nothing where it does not decode.
  void (*tell_head)(std::span<const std::byte> head, Figures& to);
  // What `made` and `changed` are called, and their figures: "created", "grown".
  std::string_view (*tell_made)(std::span<const std::byte> head, Figures& to);
  std::string_view (*tell_changed)(std::uint8_t what, std::span<const std::byte> bytes, Figures& to);

  // --- what else it can do --------------------------------------------------------------------------------

  const Payload* payload;  // null: DUMP and RESTORE use the image
  bool mirrors;            // may be an end of BF.MIRROR
};

// All kinds; the row of kind k is at index k. Declared here and defined in the module `kinds`, the only place
// that names all kinds. A program that has another list, as a test with a kind of its own, defines it itself,
// and the linker does not take the module's.
extern const std::span<const KindRow* const> kinds;

[[nodiscard]] inline const KindRow& row_of(Kind kind) {
  return *kinds[static_cast<std::size_t>(kind)];
}
[[nodiscard]] inline const KindRow& row_of(const Value& value) {
  return row_of(value.kind());
}
// The row of a number from a file; null when there is none.
[[nodiscard]] const KindRow* find_row(std::uint8_t kind);
// The row whose image begins like this; null when there is none.
[[nodiscard]] const KindRow* row_of_image(std::span<const std::byte> bytes);
// The row whose payload begins like this; null when there is none.
[[nodiscard]] const KindRow* row_of_payload(std::span<const std::byte> payload);

}  // namespace sepal::value
