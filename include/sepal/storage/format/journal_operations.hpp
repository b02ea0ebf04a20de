// The operations in a frame of the journal (journal_format.hpp): their bytes, declared once. The encoder, the
// decoder, the limits of a record and the text of `sepal inspect` follow from what stands here.
//
//     operation  =  OperationHead  [key]  the fields that its layout names  entries
//
// `added` and `made` alone have entries: `count` of them, 16 bytes each, low half first. Those of `made` are
// the first of the new value. What they mean is a matter of the value's kind, and so is what the fields of
// `made` and `changed` say (value/kind_row.hpp). With operation_same_head a `made` has no fields. A field is
// a structure of one of the shapes below. A TargetHead is followed by its key, a BytesHead by its bytes, an
// AdoptedShape by its image. An `adopted` without an image has it in a file, and is the first operation of
// its frame. A `resumed` tells that the journal was off before: what happened until there is not in it.
#pragma once

#include <sepal/keyspace/mutation.hpp>
#include <sepal/storage/format/snapshot_format.hpp>

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <variant>

namespace sepal::storage::format {

// A new kind of operation is a new version.
inline constexpr std::uint32_t journal_version = 9;
// Earlier versions are read as well, from this one on, which Sepal 0.1.0 wrote: 4 had no groups of frames
// (journal_format.hpp), 5 no `written`, 6 no lineage in the header of a segment, 7 no `made` and `changed`, 8
// no `remade`.
inline constexpr std::uint32_t journal_version_first = 4;

enum class Operation : std::uint8_t {
  added = 1,
  created = 2,  // up to version 7, as the next one and `written`
  grown = 3,
  removed = 4,
  renamed = 5,
  flushed = 6,
  flushed_all = 7,
  resumed = 8,
  expires = 9,
  adopted = 10,
  mirrored = 11,
  swapped = 12,
  moved = 13,
  written = 14,
  made = 15,
  changed = 16,
  remade = 17,
};
inline constexpr Operation last_operation = Operation::remade;

// In OperationHead::flags.
inline constexpr unsigned char operation_same_key = 1;  // the key of the operation before it in this frame
inline constexpr unsigned char operation_same_head =
    2;  // the kind and head of the last `made` before it there

struct OperationHead {
  std::uint8_t operation = 0;
  std::uint8_t database = 0;
  std::uint8_t flags = 0;
  std::uint8_t kind = 0;  // of `made` and `changed`: value::Kind
  U32 count = 0;          // number of entries
  U32 key_bytes = 0;      // the key that follows; 0 where it is the same one
  std::uint8_t what = 0;  // of `changed`
  std::array<unsigned char, 3> reserved{};
};
static_assert(sizeof(OperationHead) == 16 && alignof(OperationHead) == 1);

// --- shapes of fields -------------------------------------------------------------------------------------

struct DeadlineShape {
  U64 deadline = 0;  // in milliseconds since 1970-01-01 00:00 UTC; 0: none
};
static_assert(sizeof(DeadlineShape) == 8 && alignof(DeadlineShape) == 1);

struct AdoptedShape {
  U64 deadline = 0;     // as in DeadlineShape
  U64 file_number = 0;  // the number in adopted_name; 0: the image follows
  U64 file_seal = 0;    // the seal of that file (snapshot_format.hpp)
  U32 image_bytes = 0;  // the image that follows; 0: it is in a file
  U32 reserved = 0;
};
static_assert(sizeof(AdoptedShape) == 32 && alignof(AdoptedShape) == 1);

struct StateShape {
  U32 state = 0;  // keyspace::MirrorState
  U32 reserved = 0;
};
static_assert(sizeof(StateShape) == 8 && alignof(StateShape) == 1);

struct NumberShape {
  U64 number = 0;
};
static_assert(sizeof(NumberShape) == 8 && alignof(NumberShape) == 1);

struct TargetHead {
  U32 key_bytes = 0;  // the key that follows
  U32 reserved = 0;
};
static_assert(sizeof(TargetHead) == 8 && alignof(TargetHead) == 1);

struct BytesHead {
  U32 byte_count = 0;  // the bytes that follow
  U32 reserved = 0;
};
static_assert(sizeof(BytesHead) == 8 && alignof(BytesHead) == 1);

struct OtherDatabase {
  U32 database = 0;
  U32 reserved = 0;
};
static_assert(sizeof(OtherDatabase) == 8 && alignof(OtherDatabase) == 1);

// --- layouts ----------------------------------------------------------------------------------------------

// The operations that are no keyspace::Mutation.
struct Added {
  keyspace::DatabaseKey key{};
};
struct Resumed {};

template <class Mutation>
struct WithOwnOperations;
template <class... Changes>
struct WithOwnOperations<std::variant<Changes...>> {
  using Type = std::variant<Added, Changes..., Resumed>;
};
// An operation of any kind, without its entries.
using AnyOperation = WithOwnOperations<keyspace::Mutation>::Type;

template <class Change>
concept HasKey = requires(Change change) {
  { change.key } -> std::same_as<keyspace::DatabaseKey&>;
};
template <class Change>
concept HasDatabase = requires(Change change) {
  { change.database } -> std::same_as<std::uint32_t&>;
};
template <class Change>
inline constexpr bool has_items = std::is_same_v<Change, Added> || std::is_same_v<Change, keyspace::Made>;

// A member of an operation's struct, its shape in the bytes and its name in the text. Shapes of several
// numbers have names of their own.
template <class ShapeOfField, class Change, class Value>
struct Field {
  using Shape = ShapeOfField;
  std::string_view name;
  Value Change::*member;
};
template <class Shape, class Change, class Value>
[[nodiscard]] constexpr Field<Shape, Change, Value> field(std::string_view name, Value Change::*member) {
  return {name, member};
}

template <class... Fields>
struct Layout {
  constexpr Layout(Operation number, std::string_view text, Fields... in_order)
      : kind(number), name(text), fields(in_order...) {}

  Operation kind;
  std::string_view name;
  std::tuple<Fields...> fields;  // in the order of the bytes
};

// The layout of each operation, by its struct. A struct without one does not compile.
template <class Change>
inline constexpr auto layout = nullptr;

template <>
inline constexpr auto layout<Added> = Layout(Operation::added, "added");

template <>
inline constexpr auto layout<keyspace::Made> = Layout(Operation::made, "made",
                                                      field<BytesHead>("", &keyspace::Made::head));

// Its bytes are those of Changed::head and Changed::bytes.
template <>
inline constexpr auto layout<keyspace::Changed> = Layout(Operation::changed, "changed",
                                                         field<BytesHead>("", &keyspace::Changed::bytes));

template <>
inline constexpr auto layout<keyspace::Removed> = Layout(Operation::removed, "removed");

template <>
inline constexpr auto layout<keyspace::Expires> = Layout(Operation::expires, "expires",
                                                         field<DeadlineShape>("deadline_milliseconds",
                                                                              &keyspace::Expires::deadline));

template <>
inline constexpr auto layout<keyspace::Renamed> = Layout(Operation::renamed, "renamed",
                                                         field<TargetHead>("to", &keyspace::Renamed::target));

template <>
inline constexpr auto layout<keyspace::Adopted> = Layout(Operation::adopted, "adopted",
                                                         field<AdoptedShape>("", &keyspace::Adopted::value));

template <>
inline constexpr auto layout<keyspace::Remade> = Layout(Operation::remade, "remade",
                                                        field<BytesHead>("head", &keyspace::Remade::head),
                                                        field<BytesHead>("parts", &keyspace::Remade::parts));

template <>
inline constexpr auto layout<keyspace::Moved> =
    Layout(Operation::moved, "moved", field<OtherDatabase>("to_database", &keyspace::Moved::to_database));

template <>
inline constexpr auto layout<keyspace::Swapped> =
    Layout(Operation::swapped, "swapped", field<OtherDatabase>("with", &keyspace::Swapped::other));

template <>
inline constexpr auto layout<keyspace::Mirrored> =
    Layout(Operation::mirrored, "mirrored", field<StateShape>("state", &keyspace::Mirrored::state),
           field<NumberShape>("items_before", &keyspace::Mirrored::items_before),
           field<TargetHead>("target", &keyspace::Mirrored::target));

template <>
inline constexpr auto layout<keyspace::Flushed> = Layout(Operation::flushed, "flushed");

template <>
inline constexpr auto layout<keyspace::FlushedAll> = Layout(Operation::flushed_all, "flushed_all");

template <>
inline constexpr auto layout<Resumed> = Layout(Operation::resumed, "resumed");

// The field with which the text begins; it goes round from there.
template <class Change>
inline constexpr std::size_t told_first = 0;
template <>
inline constexpr std::size_t told_first<keyspace::Mirrored> = 2;

// Whether the next operation may have the same key without naming it.
template <class Change>
inline constexpr bool lends_key = HasKey<Change> && !std::is_same_v<Change, keyspace::Renamed>;

// Calls `visit` with each field, in the order of the bytes.
template <class Change, class Visit>
constexpr void each_field(const Visit& visit) {
  std::apply([&](const auto&... fields) { (visit(fields), ...); }, layout<Change>.fields);
}

// The bytes of an operation beside its key, and what follows a shape.
template <class Change>
[[nodiscard]] constexpr std::size_t fixed_bytes() {
  std::size_t bytes = sizeof(OperationHead);
  each_field<Change>(
      [&](const auto& field) { bytes += sizeof(typename std::decay_t<decltype(field)>::Shape); });
  return bytes;
}

// What versions 4 to 7 wrote in the place of `made` and `changed`: without a kind, and without a BytesHead in
// front. The bytes are the same.
struct EarlierForm {
  Operation operation{};
  std::uint8_t kind = 0;
  std::size_t byte_count = 0;
  bool counts_more =
      false;  // the last 8 of these bytes are a BytesHead, with the number of bytes that follow
};
inline constexpr std::array<EarlierForm, 3> earlier_forms{
    {{Operation::created, 0, 64}, {Operation::grown, 0, 32}, {Operation::written, 1, 16, true}}};

template <class... Changes>
[[nodiscard]] constexpr bool has_each_operation_once(const std::variant<Changes...>* /*operations*/) {
  std::uint64_t seen = ((std::uint64_t{1} << static_cast<unsigned>(layout<Changes>.kind)) | ...);
  for (const EarlierForm& form : earlier_forms)
    seen |= std::uint64_t{1} << static_cast<unsigned>(form.operation);
  return sizeof...(Changes) + earlier_forms.size() == static_cast<std::size_t>(last_operation) &&
         seen == (std::uint64_t{2} << static_cast<unsigned>(last_operation)) - 2;
}
static_assert(has_each_operation_once(static_cast<const AnyOperation*>(nullptr)));

}  // namespace sepal::storage::format
