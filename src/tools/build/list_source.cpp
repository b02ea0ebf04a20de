#include "tools/build/list_source.hpp"

#include <sepal/base/assert.hpp>

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "tools/build/decompressor.hpp"

namespace sepal::tools {
namespace {

using namespace std::string_view_literals;

// Enough for the mark of a tar archive, which stands in the middle of its first block.
constexpr std::size_t head_bytes = 512;

struct Mark {
  std::string_view bytes;
  std::string_view name;
  std::size_t offset = 0;
};

constexpr std::array unread_formats{
    Mark{.bytes = "\xfd\x37\x7a\x58\x5a\x00"sv, .name = "xz"},
    Mark{.bytes = "PK\x03\x04"sv, .name = "zip"},
    Mark{.bytes = "PK\x05\x06"sv, .name = "zip"},
    Mark{.bytes = "7z\xbc\xaf\x27\x1c"sv, .name = "7z"},
    Mark{.bytes = "\x04\x22\x4d\x18"sv, .name = "lz4"},
    Mark{.bytes = "\x02\x21\x4c\x18"sv, .name = "lz4"},
    Mark{.bytes = "LZIP\x01"sv, .name = "lzip"},
    Mark{.bytes = "\x89LZO\x00\x0d\x0a\x1a\x0a"sv, .name = "lzop"},
    Mark{.bytes = "Rar!\x1a\x07"sv, .name = "rar"},
    Mark{.bytes = "\xff\x06\x00\x00sNaPpY"sv, .name = "snappy"},
    Mark{.bytes = "ustar"sv, .name = "tar", .offset = 257},
};
// Behind "BZh" and a digit: the mark of the first block, or that of the end.
constexpr std::string_view bzip2 = "BZh"sv;
constexpr std::array bzip2_blocks{"\x31\x41\x59\x26\x53\x59"sv, "\x17\x72\x45\x38\x50\x90"sv};
constexpr std::string_view filter_file = "SEPALFLT"sv;

constexpr std::string_view mark_of_utf8 = "\xef\xbb\xbf"sv;
// The marks of UTF-32 begin with, or have in them, those of UTF-16.
constexpr std::array other_texts{Mark{.bytes = "\xff\xfe\x00\x00"sv, .name = "UTF-32"},
                                 Mark{.bytes = "\x00\x00\xfe\xff"sv, .name = "UTF-32"},
                                 Mark{.bytes = "\xff\xfe"sv, .name = "UTF-16"},
                                 Mark{.bytes = "\xfe\xff"sv, .name = "UTF-16"}};

bool has(std::string_view head, const Mark& mark) {
  return head.size() >= mark.offset && head.substr(mark.offset).starts_with(mark.bytes);
}

bool is_gzip(std::string_view head) {
  return head.starts_with("\x1f\x8b"sv);
}

// The magic of a frame, or of a skippable frame. The first byte of the latter's magic has four free bits.
bool is_zstd(std::string_view head) {
  return head.starts_with("\x28\xb5\x2f\xfd"sv) ||
         (!head.empty() && (head[0] & '\xf0') == '\x50' && head.substr(1).starts_with("\x2a\x4d\x18"sv));
}

bool is_bzip2(std::string_view head) {
  return head.starts_with(bzip2) && std::ranges::any_of(bzip2_blocks, [&](std::string_view block) {
           return has(head, {.bytes = block, .name = "", .offset = bzip2.size() + 1});
         });
}

// The program `compress`: its third byte has the width of its codes, 9 to 16 bits, and a flag.
bool is_compress(std::string_view head) {
  constexpr std::string_view magic = "\x1f\x9d"sv;
  constexpr unsigned width_min = 0x89;
  constexpr unsigned width_max = 0x90;
  if (!head.starts_with(magic) || head.size() == magic.size()) return false;
  const unsigned width = static_cast<unsigned char>(head[magic.size()]);
  return width >= width_min && width <= width_max;
}

std::string_view unread_format(std::string_view head) {
  for (const Mark& mark : unread_formats)
    if (has(head, mark)) return mark.name;
  if (is_bzip2(head)) return "bzip2";
  return is_compress(head) ? "compress" : "";
}

// Why a file that begins so is no list; nothing: it may be one.
std::optional<Error> refusal(std::string_view head, ItemFormat format) {
  if (head.starts_with(filter_file))
    return fail(Errc::out_of_range, "is a filter file of Sepal, not a list of items");
  if (const std::string_view name = unread_format(head); !name.empty())
    return fail(Errc::out_of_range,
                "is of the format " + std::string(name) +
                    ", which is not read; unpack it, or pipe what its program unpacks into sepal build");
  // In the other formats, a length or an item may begin so.
  if (!is_lines(format)) return std::nullopt;
  const auto* const text =
      std::ranges::find_if(other_texts, [&](const Mark& mark) { return has(head, mark); });
  if (text == other_texts.end()) return std::nullopt;
  return fail(Errc::out_of_range,
              "is " + std::string(text->name) + " text; make UTF-8 of it, for example with iconv");
}

// Knows its first bytes before they are read. Confined.
class PeekedSource final : public ByteSource {
 public:
  explicit PeekedSource(std::unique_ptr<ByteSource> source) : source_(std::move(source)) {
    std::array<char, head_bytes> bytes;
    // A source may give fewer bytes than were asked for.
    while (head_.size() < head_bytes) {
      const auto count = source_->read(std::span(bytes).first(head_bytes - head_.size()));
      if (!count) failure_ = count.error();
      if (!count || *count == 0) return;
      head_.append(bytes.data(), *count);
    }
  }

  [[nodiscard]] std::string_view head() const { return head_; }
  void leave_out(std::size_t byte_count) {
    SEPAL_ASSERT(byte_count <= head_.size(), "more bytes are left out than are known");
    head_taken_ = byte_count;
  }

  Result<std::size_t> read(std::span<char> into) override {
    if (head_taken_ == head_.size()) return failure_ ? Result<std::size_t>(*failure_) : source_->read(into);
    const std::string_view rest = std::string_view(head_).substr(head_taken_);
    const std::size_t count = std::min(rest.size(), into.size());
    std::memcpy(into.data(), rest.data(), count);
    head_taken_ += count;
    return count;
  }

  [[nodiscard]] std::uint64_t position() const override { return source_->position(); }

 private:
  std::unique_ptr<ByteSource> source_;
  std::string head_;
  std::size_t head_taken_ = 0;
  std::optional<Error> failure_;  // behind head_
};

}  // namespace

Result<ListSource> list_source(std::unique_ptr<ByteSource> file, ItemFormat format) {
  auto list = std::make_unique<PeekedSource>(std::move(file));
  const bool gzip = is_gzip(list->head());
  const bool compressed = gzip || is_zstd(list->head());
  if (compressed) {
    list = std::make_unique<PeekedSource>(gzip ? gzip_source(std::move(list)) : zstd_source(std::move(list)));
    if (is_gzip(list->head()) || is_zstd(list->head()))
      return fail(Errc::out_of_range, "is compressed twice; unpack it once");
  }
  if (auto refused = refusal(list->head(), format)) return *refused;
  const bool has_mark = format != ItemFormat::length_prefixed && list->head().starts_with(mark_of_utf8);
  if (has_mark) list->leave_out(mark_of_utf8.size());
  return ListSource{.bytes = std::move(list), .compressed = compressed};
}

}  // namespace sepal::tools
