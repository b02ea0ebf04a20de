// The toy's row. It fits any kind whose values are small; the first such kind of sepald moves this file to
// include/sepal/value, because sepald has nothing of tests. An image is written and read at once, from one
// text of bytes that the value gives and takes. While a save, a copy or a dump reads the value, the Still has
// that text.
//
//     head    4 magic, 4 item count, 8 byte count
//     body    the text, and zeros up to a multiple of 8
//
// DUMP and RESTORE use the image. Each change is recorded as `changed`; the first one makes the value.
#pragma once

#include <sepal/base/endian.hpp>
#include <sepal/value/kind_row.hpp>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace sepal::value {

// The system has no memory to complete a value that is loaded.
inline bool system_lacks_memory = false;

struct SmallFacts {
  std::string_view type_name;
  std::string_view word;
  std::string_view magic;       // 4 bytes, with which no other image and no payload begins
  std::uint64_t bytes_max = 0;  // of the text
};

// A class Class of such a kind derives from this, has a constructor without arguments, and:
//
//     static constexpr Kind own_kind;
//     static constexpr SmallFacts facts;
//     std::uint64_t byte_count() const;              KindRow::byte_count
//     std::uint64_t item_count() const;              at most 2^32 - 1
//     std::string text() const;                      the members below are told the same text, or any other
//     bool take(std::string_view text);              of an empty value; false: no value has this text
//     bool apply(std::uint8_t what, std::string_view bytes);      false: nothing was changed
//     static std::string_view name_of(std::uint8_t what);         of a change: "learned"
//
// Const members are shared, the others exclusive.
class SmallValue : public Value {
 public:
  [[nodiscard]] std::uint64_t changes() const { return changes_; }
  [[nodiscard]] std::uint64_t identity() const { return identity_; }

 protected:
  explicit SmallValue(Kind kind) : Value(kind) {}

 private:
  template <class Class>
  friend struct SmallKind;
  struct Loading {
    std::string body;
    std::uint64_t text_bytes = 0;
    std::uint64_t item_count = 0;
  };

  std::uint64_t changes_ = 0;
  std::unique_ptr<Loading> loading_;  // while an image is read
  const std::uint64_t identity_ = next_identity++;
  static inline std::atomic<std::uint64_t> next_identity{1};
};

// The functions of the row.
template <class Class>
struct SmallKind {
  static constexpr std::size_t head_bytes = 16;
  static constexpr std::string_view magic = Class::facts.magic;
  static_assert(magic.size() == sizeof(std::uint32_t));

  struct Text final : Still {
    std::string text;
    std::uint64_t item_count = 0;
  };

  static Class& in(Value& value) { return static_cast<Class&>(value); }
  static const Class& in(const Value& value) { return static_cast<const Class&>(value); }
  static const Text& held(const FrozenView& frozen) { return static_cast<const Text&>(*frozen.still); }
  static std::string_view text_of(std::span<const std::byte> bytes) {
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }
  static std::uint64_t padded(std::uint64_t bytes) { return (bytes + 7) / 8 * 8; }

  // --- the image ------------------------------------------------------------------------------------------

  static Result<SmallValue::Loading> read(std::span<const std::byte> head) {
    if (head.size() < head_bytes || !text_of(head).starts_with(magic))
      return fail(Errc::damaged, "the head of a small value is cut short");
    SmallValue::Loading loading;
    loading.item_count = load_little_endian<std::uint32_t>(head.data() + magic.size());
    loading.text_bytes = load_little_endian<std::uint64_t>(head.data() + 8);
    if (loading.text_bytes > Class::facts.bytes_max)
      return fail(Errc::damaged, "a small value is longer than one can be");
    return loading;
  }
  static Result<Shape> read_head(std::span<const std::byte> bytes, std::uint32_t /*layers_max*/) {
    const auto loading = read(bytes);
    if (!loading) return loading.error();
    return Shape{.head_bytes = head_bytes,
                 .body_bytes = padded(loading->text_bytes),
                 .item_count = loading->item_count};
  }
  static Result<ValuePtr> make(std::span<const std::byte> head, const Limits& limits, FilledBy /*by*/) {
    auto loading = read(head);
    if (!loading) return loading.error();
    if (sizeof(Class) + loading->text_bytes > limits.bytes_max) return fail(Errc::too_large);
    const ValuePtr made(new Class);
    loading->body.resize(padded(loading->text_bytes));
    in(*made).loading_ = std::make_unique<SmallValue::Loading>(std::move(*loading));
    return made;
  }
  static void fill_body(Value& value, std::uint64_t offset, std::span<const std::byte> from) {
    in(value).loading_->body.replace(offset, from.size(), text_of(from));
  }
  static Result<void> complete(Value& value) {
    if (system_lacks_memory) return fail(Errc::out_of_memory);
    const auto loading = std::move(in(value).loading_);
    const std::string_view body = loading->body;
    const bool ends_in_zeros = body.find_first_not_of('\0', loading->text_bytes) == std::string_view::npos;
    if (!ends_in_zeros || !in(value).take(body.substr(0, loading->text_bytes)) ||
        in(value).item_count() != loading->item_count)
      return fail(Errc::damaged, "the body of a small value contradicts it");
    return {};
  }
  static std::unique_ptr<Still> freeze(const Value& value, std::vector<std::uint64_t>& /*numbers*/) {
    auto still = std::make_unique<Text>();
    still->text = in(value).text();
    still->item_count = in(value).item_count();
    return still;
  }
  static void encode_head(const FrozenView& frozen, std::span<std::byte> into) {
    auto* const to = reinterpret_cast<unsigned char*>(into.data());
    std::ranges::copy(magic, to);
    store_little_endian(to + magic.size(), static_cast<std::uint32_t>(held(frozen).item_count));
    store_little_endian(to + 8, std::uint64_t{held(frozen).text.size()});
  }
  static void copy_body(const FrozenView& frozen, std::uint64_t offset, std::span<std::byte> to) {
    const auto text = std::as_bytes(std::span(held(frozen).text));
    std::ranges::fill(to, std::byte{0});
    const auto from = text.subspan(std::min<std::uint64_t>(offset, text.size()));
    std::ranges::copy(from.first(std::min(from.size(), to.size())), to.begin());
  }

  // --- its records ----------------------------------------------------------------------------------------

  static Result<ValuePtr> make_recorded(std::span<const std::byte> head, const Limits& /*limits*/) {
    if (!head.empty()) return fail(Errc::damaged, "a small value is made of bytes");
    return ValuePtr(new Class);
  }
  static Result<ValuePtr> apply(Value& value, std::uint8_t what, std::span<const std::byte> bytes,
                                const Limits& /*limits*/) {
    if (!in(value).apply(what, text_of(bytes))) return fail(Errc::out_of_range, "no such change is possible");
    ++in(value).changes_;
    return ValuePtr();
  }
  static std::string_view tell_changed(std::uint8_t what, std::span<const std::byte> bytes, Figures& to) {
    to.number("bytes", bytes.size());
    return Class::name_of(what);
  }
  static std::string sentence(const Value& value) {
    return "a " + std::string(Class::facts.word) + " with " + std::to_string(in(value).item_count()) +
           " items";
  }

  static constexpr KindRow row{
      .kind = Class::own_kind,
      .type_name = Class::facts.type_name,
      .word = Class::facts.word,
      .destroy = [](Value* value) { delete static_cast<Class*>(value); },
      .byte_count = [](const Value& value) { return in(value).byte_count(); },
      .item_count = [](const Value& value) { return in(value).item_count(); },
      .changes = [](const Value& value) { return in(value).changes(); },
      .identity = [](const Value& value) { return in(value).identity(); },
      .prepare = nullptr,
      .encoding = nullptr,
      .make_state = nullptr,
      .begins_image = [](std::span<const std::byte> bytes) { return text_of(bytes).starts_with(magic); },
      .read_head = read_head,
      .make = make,
      .fill_body = fill_body,
      .complete = complete,
      .freeze = freeze,
      .head_bytes = [](const FrozenView&) { return head_bytes; },
      .body_bytes = [](const FrozenView& frozen) { return padded(held(frozen).text.size()); },
      .encode_head = encode_head,
      .copy_body = copy_body,
      .repeat = Repeat::once,
      .made_by_change = true,
      .make_recorded = make_recorded,
      .apply = apply,
      .add = nullptr,
      .add_refused = "from here on entries are added to a value that takes none",
      .tell = [](const Value& value, Figures& to) { to.number("items", in(value).item_count()); },
      .sentence = sentence,
      .tell_head =
          [](std::span<const std::byte> head, Figures& to) {
            if (const auto loading = read(head)) to.number("items", loading->item_count);
          },
      .tell_made = [](std::span<const std::byte>, Figures&) { return std::string_view("created"); },
      .tell_changed = tell_changed,
      .payload = nullptr,
      .mirrors = false,
  };
};

}  // namespace sepal::value
