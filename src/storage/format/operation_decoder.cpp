#include "storage/format/operation_decoder.hpp"

#include <sepal/base/assert.hpp>
#include <sepal/keyspace/keyspace.hpp>
#include <sepal/value/kind_row.hpp>

#include <algorithm>
#include <bit>
#include <type_traits>

#include "storage/disk/damage.hpp"

namespace sepal::storage {
namespace {

constexpr const char* too_short = "an operation is longer than its frame";
constexpr const char* unknown_flags = "an operation has flags that this build does not know";
constexpr const char* no_such_database = "there is no such database";
constexpr const char* unknown_kind = "a value is of a kind that this build does not know";
constexpr const char* wrong_deadline = "a deadline lies before all time";

// Each read() takes a field, whose shape it is given, and returns what is wrong with it; null: nothing.

const char* read(BodyReader& body, format::DeadlineShape shape, keyspace::Deadline& deadline) {
  if (!body.take(shape)) return too_short;
  deadline = static_cast<keyspace::Deadline>(std::uint64_t{shape.deadline});
  return deadline < 0 ? wrong_deadline : nullptr;
}

const char* read(BodyReader& body, format::AdoptedShape shape, keyspace::AdoptedValue& adopted) {
  if (!body.take(shape) || !body.take(shape.image_bytes, adopted.image)) return too_short;
  if (shape.reserved != 0) return "a filter that came whole has flags that this build does not know";
  adopted.deadline = static_cast<keyspace::Deadline>(std::uint64_t{shape.deadline});
  if (adopted.deadline < 0) return wrong_deadline;
  // Either a file or an image, and not both.
  if ((shape.file_number == 0) != (shape.image_bytes != 0) || shape.file_number > format::adopted_number_max)
    return "a filter that came whole is not in the record, and in no file";
  adopted.file = {.number = shape.file_number, .seal = shape.file_seal};
  return nullptr;
}

const char* read(BodyReader& body, format::StateShape shape, keyspace::MirrorState& state) {
  if (!body.take(shape)) return too_short;
  if (shape.reserved != 0 || shape.state > static_cast<std::uint32_t>(keyspace::last_mirror_state))
    return "a mirror has a state that this build does not know";
  state = static_cast<keyspace::MirrorState>(std::uint32_t{shape.state});
  return nullptr;
}

const char* read(BodyReader& body, format::NumberShape shape, std::uint64_t& number) {
  if (!body.take(shape)) return too_short;
  number = shape.number;
  return nullptr;
}

const char* read(BodyReader& body, format::TargetHead shape, std::string_view& target) {
  if (!body.take(shape)) return too_short;
  if (shape.reserved != 0) return "a new name has flags that this build does not know";
  return body.take(shape.key_bytes, target) ? nullptr : too_short;
}

const char* read(BodyReader& body, format::BytesHead shape, std::span<const std::byte>& bytes) {
  if (!body.take(shape)) return too_short;
  if (shape.reserved != 0) return "bytes have flags that this build does not know";
  return body.take(shape.byte_count, bytes) ? nullptr : too_short;
}

const char* read(BodyReader& body, format::OtherDatabase shape, std::uint32_t& database) {
  if (!body.take(shape)) return too_short;
  if (shape.database >= keyspace::database_count) return no_such_database;
  if (shape.reserved != 0) return "a database has flags that this build does not know";
  database = shape.database;
  return nullptr;
}

}  // namespace

void append_fingerprints(std::span<const std::byte> bytes, std::vector<Fingerprint>& to) {
  SEPAL_ASSERT(bytes.size() % sizeof(Fingerprint) == 0, "the last fingerprint is not whole");
  const std::size_t before = to.size();
  to.resize(before + bytes.size() / sizeof(Fingerprint));
  // `bytes` may stand at any alignment, so the fingerprints are copied, not looked at in place.
  if constexpr (std::endian::native == std::endian::little) {
    if (!bytes.empty()) std::memcpy(to.data() + before, bytes.data(), bytes.size());
  } else {
    const std::byte* from = bytes.data();
    for (std::size_t i = before; i < to.size(); ++i, from += sizeof(Fingerprint))
      to[i] = {.low = load_little_endian<std::uint64_t>(from),
               .high = load_little_endian<std::uint64_t>(from + sizeof(std::uint64_t))};
  }
}

// operation_ is overwritten in place, so the key of the operation before stays there for operation_same_key.
Result<const DecodedOperation*> OperationDecoder::next() {
  SEPAL_ASSERT(!at_end(), "an operation is asked for behind the last one of its frame");
  format::OperationHead head;
  if (!body_.take(head)) return damaged(too_short);
  const char* const wrong = take_any(head, operation_.change);
  if (wrong == unknown_kind) return fail(Errc::unsupported_version, wrong);
  if (wrong != nullptr) return damaged(wrong);
  return &operation_;
}

// Takes the operation as the struct whose kind the head names.
template <class... Changes>
const char* OperationDecoder::take_any(const format::OperationHead& head, std::variant<Changes...>& into) {
  // The variant lists all kinds, so none can be forgotten here.
  const char* wrong = nullptr;
  const auto take_if = [&]<class Change>(std::type_identity<Change> /*kind*/) {
    if (head.operation != static_cast<std::uint8_t>(format::layout<Change>.kind)) return false;
    wrong = take_operation(head, into.template emplace<Change>());
    return true;
  };
  if ((take_if(std::type_identity<Changes>()) || ...)) return wrong;
  return take_earlier(head);
}

// As the `made` or `changed` that this version writes in its place.
const char* OperationDecoder::take_earlier(format::OperationHead head) {
  const auto* const form = std::ranges::find_if(format::earlier_forms, [&](const format::EarlierForm& each) {
    return head.operation == static_cast<std::uint8_t>(each.operation);
  });
  if (form == format::earlier_forms.end()) return "an operation is of a kind that this build does not know";
  if (head.kind != 0 || head.what != 0) return unknown_flags;
  head.kind = form->kind;
  if (form->operation == format::Operation::created)
    return take_operation(head, operation_.change.emplace<keyspace::Made>(), &*form);
  return take_operation(head, operation_.change.emplace<keyspace::Changed>(), &*form);
}

template <class Change>
const char* OperationDecoder::take_operation(const format::OperationHead& head, Change& change,
                                             const format::EarlierForm* earlier) {
  constexpr bool made = std::is_same_v<Change, keyspace::Made>;
  constexpr bool changed = std::is_same_v<Change, keyspace::Changed>;
  constexpr unsigned known = format::operation_same_key | (made ? format::operation_same_head : 0U);
  if (head.database >= keyspace::database_count) return no_such_database;
  if ((head.flags & ~known) != 0 || head.reserved != format::OperationHead().reserved ||
      (head.kind != 0 && !made && !changed) || (head.what != 0 && !changed))
    return unknown_flags;
  if constexpr (made || changed) {
    if (value::find_row(head.kind) == nullptr) return unknown_kind;
    change.kind = static_cast<value::Kind>(head.kind);
  }
  if constexpr (changed) change.what = head.what;
  if (head.count != 0 && !format::has_items<Change>)
    return "an operation has a count that it should not have";
  if constexpr (format::HasKey<Change>) {
    if (const char* const wrong = take_key(head)) return wrong;
    change.key = operation_.key;
  } else {
    if ((head.flags & format::operation_same_key) != 0 || head.key_bytes != 0)
      return "an operation has a key that it should not have";
    operation_.key = {.database = head.database, .key = {}};
    if constexpr (format::HasDatabase<Change>) change.database = head.database;
  }
  // As in OperationEncoder::put(). Behind a rename the old key names nothing.
  has_key_ = format::lends_key<Change>;
  if (const char* const wrong = take_fields(head, change, earlier)) return wrong;
  operation_.count = head.count;
  // The count has 32 bits, so the product fits.
  const std::uint64_t bytes = std::uint64_t{operation_.count} * sizeof(Fingerprint);
  return body_.take(bytes, operation_.fingerprints) ? nullptr : too_short;
}

const char* OperationDecoder::take_key(const format::OperationHead& head) {
  if ((head.flags & format::operation_same_key) == 0) {
    operation_.key.database = head.database;
    return body_.take(head.key_bytes, operation_.key.key) ? nullptr : too_short;
  }
  const bool named = head.key_bytes == 0 && has_key_ && operation_.key.database == head.database;
  return named ? nullptr : "an operation names the key of none before it";
}

template <class Change>
const char* OperationDecoder::take_fields(const format::OperationHead& head, Change& change,
                                          const format::EarlierForm* earlier) {
  if constexpr (std::is_same_v<Change, keyspace::Made>) {
    if ((head.flags & format::operation_same_head) != 0) {
      // A head is shared within a frame only: a reader may not have read the frames before it.
      if (!made_ || made_->kind != change.kind) return "a value has the head of none before it";
      change.head = made_->head;
      return nullptr;
    }
    const char* const wrong = take_bytes(earlier, change.head);
    made_ = change;
    return wrong;
  } else if constexpr (std::is_same_v<Change, keyspace::Changed>) {
    return take_bytes(earlier, change.bytes);
  } else {
    const char* wrong = nullptr;
    format::each_field<Change>([&](const auto& field) {
      using Shape = typename std::decay_t<decltype(field)>::Shape;
      // The fields stand one behind the other, so nothing is read behind one that is wrong.
      if (wrong == nullptr) wrong = read(body_, Shape(), change.*field.member);
    });
    return wrong;
  }
}

const char* OperationDecoder::take_bytes(const format::EarlierForm* earlier,
                                         std::span<const std::byte>& into) {
  if (earlier == nullptr) return read(body_, format::BytesHead(), into);
  std::uint64_t count = earlier->byte_count;
  if (earlier->counts_more) {
    BodyReader ahead = body_;
    std::span<const std::byte> before;
    format::BytesHead more;
    if (!ahead.take(count - sizeof more, before) || !ahead.take(more)) return too_short;
    count += more.byte_count;
  }
  return body_.take(count, into) ? nullptr : too_short;
}

}  // namespace sepal::storage
