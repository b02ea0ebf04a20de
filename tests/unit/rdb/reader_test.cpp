// Fields and strings of the RDB format, from memory and from a source that gives them in pieces.
#include <sepal/rdb/reader.hpp>

#include <lzf.h>

#include "support/catch.hpp"
#include "support/rdb_text.hpp"

namespace reader_test {

namespace {

using namespace sepal;
using namespace sepal::rdb;
using test::bytes_of;

// Gives `piece_bytes` at a time.
class Pieces final : public Source {
 public:
  Pieces(std::string_view text, std::size_t piece_bytes) : rest_(bytes_of(text)), piece_bytes_(piece_bytes) {}
  std::span<const std::byte> more() override {
    const auto piece = rest_.first(std::min(piece_bytes_, rest_.size()));
    rest_ = rest_.subspan(piece.size());
    return piece;
  }
  bool skip(std::uint64_t byte_count) override {
    if (byte_count > rest_.size()) return false;
    rest_ = rest_.subspan(static_cast<std::size_t>(byte_count));
    return true;
  }

 private:
  std::span<const std::byte> rest_;
  std::size_t piece_bytes_;
};

std::string packed(const std::string& text) {
  std::string packed(text.size() + 64, '\0');
  packed.resize(lzf_compress(text.data(), static_cast<unsigned>(text.size()), packed.data(),
                             static_cast<unsigned>(packed.size())));
  return packed;
}

// Reads a packed string in parts of `part_bytes`.
Result<std::string> unpacked(const std::string& packed_text, std::size_t text_bytes, std::size_t part_bytes) {
  const std::vector<char> exact(packed_text.begin(), packed_text.end());
  BytesInMemory bytes(std::as_bytes(std::span(exact)));
  StringReader reader({.kind = String::Kind::packed,
                       .offset = 0,
                       .byte_count = packed_text.size(),
                       .unpacked_bytes = text_bytes},
                      bytes);
  std::string text(text_bytes, '\0');
  for (std::size_t at = 0; at < text_bytes; at += part_bytes) {
    const auto part =
        std::as_writable_bytes(std::span(text)).subspan(at, std::min(part_bytes, text_bytes - at));
    if (auto done = reader.read(part); !done) return done.error();
  }
  return text;
}

// Repetitions near and far, and bytes that do not repeat.
std::string mixed_text(std::size_t byte_count, std::uint32_t seed) {
  std::mt19937 random(seed);
  std::string text;
  while (text.size() < byte_count) {
    const std::size_t count = 1 + random() % 400;
    const std::size_t back = 1 + random() % 9000;
    if (random() % 3 == 0 || back > text.size()) {
      for (std::size_t i = 0; i < count % 40; ++i) text += static_cast<char>(random());
    } else {
      for (std::size_t i = 0; i < count; ++i) text += text[text.size() - back];
    }
  }
  text.resize(byte_count);
  return text;
}

}  // namespace

TEST_CASE("packed strings are unpacked from front to back as the library unpacks them") {
  for (const std::size_t byte_count : {40u, 1000u, 40'000u, 300'000u}) {
    const std::string text = mixed_text(byte_count, static_cast<std::uint32_t>(byte_count));
    const std::string small = packed(text);
    REQUIRE(!small.empty());
    for (const std::size_t part_bytes : {std::size_t{1}, std::size_t{777}, std::size_t{65'536}, byte_count}) {
      CAPTURE(byte_count, part_bytes);
      const auto read = unpacked(small, byte_count, part_bytes);
      REQUIRE(read);
      CHECK(*read == text);
    }
  }
}

TEST_CASE("a packed string that does not fit its length is refused") {
  const std::string text = mixed_text(50'000, 3);
  const std::string small = packed(text);
  CHECK(unpacked(small, text.size(), 1000));
  CHECK(unpacked(small, text.size() - 1, 1000).error().code == Errc::damaged);
  CHECK(unpacked(small, text.size() + 1, 1000).error().code == Errc::damaged);
  CHECK(unpacked(small.substr(0, small.size() - 1), text.size(), 1000).error().code == Errc::damaged);
  // A repetition of what stands before the first byte.
  CHECK(unpacked(std::string("\x00x\x20\x01", 4), 4, 4).error().code == Errc::damaged);
  CHECK(*unpacked(std::string("\x00x\x20\x00", 4), 4, 4) == "xxxx");
}

TEST_CASE("texts are plain, packed, or numbers") {
  const auto text = [](const std::string& stored, std::size_t bytes_max = 100) {
    const std::vector<char> exact(stored.begin(), stored.end());
    Reader reader(std::as_bytes(std::span(exact)));
    auto read = reader.text(bytes_max);
    CHECK(!reader.failed());
    CHECK(reader.at_end());
    return read;
  };
  CHECK(text("\x05hello") == "hello");
  CHECK(text(std::string("\0", 1)) == "");
  CHECK(text("\xc0\xfb") == "-5");
  CHECK(text(std::string("\xc1\x00\x01", 3)) == "256");
  CHECK(text("\xc1\xff\xff") == "-1");
  CHECK(text(std::string("\xc2\x00\x00\x00\x80", 5)) == "-2147483648");
  CHECK(text(std::string("\xc3\x04\x04\x00x\x20\x00", 7)) == "xxxx");
  CHECK(text("\x05hello", 5) == "hello");
  CHECK(text("\x05hello", 4) == std::nullopt);
}

TEST_CASE("a source in pieces reads as bytes in memory, and sums what it skips") {
  test::RdbText text;
  text.number(7);
  text.real(0.25);
  text.string(std::string(1000, 'x'));
  text.bytes += "\x01\x05";  // a signed number
  text.bytes += std::string("\x03\0\0\0\0", 5);
  text.length(0);
  for (const std::size_t piece_bytes : {1u, 2u, 3u, 64u, 100'000u}) {
    for (const auto summing : {Reader::Summing::no, Reader::Summing::yes}) {
      CAPTURE(piece_bytes, summing == Reader::Summing::yes);
      Pieces source(text.bytes, piece_bytes);
      Reader reader(source, summing);
      CHECK(reader.number() == 7);
      CHECK(reader.real() == 0.25);
      const String bits = reader.bits();
      CHECK((bits.unpacked_bytes == 1000 && text.bytes.substr(bits.offset, 1000) == std::string(1000, 'x')));
      reader.skip_fields();
      CHECK(!reader.failed());
      CHECK(reader.offset() == text.bytes.size());
      CHECK(reader.at_end());
      if (summing == Reader::Summing::yes) CHECK(reader.checksum() == checksum(bytes_of(text.bytes)));
    }
  }
}

TEST_CASE("what is cut short or of an unknown kind fails, and reads as 0") {
  const auto fails = [](const std::string& stored, void (*read)(Reader&)) {
    const std::vector<char> exact(stored.begin(), stored.end());
    Reader reader(std::as_bytes(std::span(exact)));
    read(reader);
    return reader.failed() && reader.length() == 0;
  };
  const auto skip_fields = [](Reader& reader) { reader.skip_fields(); };
  const auto string = [](Reader& reader) { reader.string(); };
  CHECK(fails("", skip_fields));
  CHECK(fails("\x06\x01", skip_fields));
  CHECK(fails("\x04\x01", skip_fields));
  CHECK(fails("\x02\x01", skip_fields));
  // A number of which only the last byte is an opcode.
  CHECK(fails(std::string("\x80\x00\x00\x01\x00", 5), skip_fields));
  CHECK(fails("\x05hell", string));
  CHECK(fails("\xc4", string));
  CHECK(fails(std::string("\xc3\x01\x80\x7f\xff\xff\xffx", 8), string));
  CHECK(fails("\x81\xff\xff\xff\xff\xff\xff\xff\xffx", string));
}

}  // namespace reader_test
