#include "tools/build/decompressor.hpp"

#include <zlib.h>
#include <zstd.h>

#include "support/catch.hpp"
#include "support/memory_source.hpp"

namespace decompressor_test {

using namespace sepal;
using namespace sepal::tools;
using test::MemorySource;

namespace {

using Open = std::unique_ptr<ByteSource> (*)(std::unique_ptr<ByteSource>);

// Larger than any buffer in between, and not compressible to a few bytes.
std::string sample_text() {
  std::string text;
  for (std::uint64_t i = 0; text.size() < (3 << 20); ++i)
    text += std::to_string(i * 0x9e3779b97f4a7c15) + "\n";
  return text;
}

std::string gzipped(const std::string& text) {
  z_stream stream{};
  REQUIRE(deflateInit2(&stream, 1, Z_DEFLATED, MAX_WBITS + 16, 8, Z_DEFAULT_STRATEGY) == Z_OK);
  std::string packed(deflateBound(&stream, text.size()) + 64, '\0');
  std::string input = text;
  stream.next_in = reinterpret_cast<Bytef*>(input.data());
  stream.avail_in = static_cast<uInt>(input.size());
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = static_cast<uInt>(packed.size());
  REQUIRE(deflate(&stream, Z_FINISH) == Z_STREAM_END);
  packed.resize(stream.total_out);
  deflateEnd(&stream);
  return packed;
}

std::string zstd_packed(const std::string& text) {
  std::string packed(ZSTD_compressBound(text.size()), '\0');
  packed.resize(ZSTD_compress(packed.data(), packed.size(), text.data(), text.size(), 1));
  return packed;
}

struct Unpacked {
  std::string text;
  std::optional<Error> error;
};

Unpacked unpack(Open open, const std::string& packed, std::size_t piece, std::size_t room) {
  const auto source = open(std::make_unique<MemorySource>(packed, [piece] { return piece; }));
  std::string buffer(room, '\0');
  Unpacked unpacked;
  for (;;) {
    const auto count = source->read(buffer);
    if (!count) unpacked.error = count.error();
    if (!count || *count == 0) return unpacked;
    unpacked.text.append(buffer.data(), *count);
  }
}

struct Coding {
  Open open;
  std::string (*pack)(const std::string&);
};
const Coding codings[] = {{gzip_source, gzipped}, {zstd_source, zstd_packed}};

}  // namespace

TEST_CASE("compressed data is read back, for any cuts") {
  const std::string text = sample_text();
  for (const Coding& coding : codings) {
    const std::string packed = coding.pack(text);
    CHECK((unpack(coding.open, packed, 1 << 20, 1 << 20).text == text));
    CHECK((unpack(coding.open, packed, 1 << 20, 1000).text == text));
    CHECK((unpack(coding.open, packed, 4097, 1 << 16).text == text));
    const std::string small = coding.pack("one\ntwo\n");
    CHECK(unpack(coding.open, small, 1, 1).text == "one\ntwo\n");
  }
}

TEST_CASE("several members or frames in a row are read as one input") {
  for (const Coding& coding : codings) {
    const std::string packed = coding.pack("one\n") + coding.pack("") + coding.pack("two\n");
    for (const std::size_t piece : {1, 1000}) {
      const auto unpacked = unpack(coding.open, packed, piece, 100);
      CHECK_FALSE(unpacked.error);
      CHECK(unpacked.text == "one\ntwo\n");
    }
  }
}

TEST_CASE("compressed data that ends too early at any byte is damage") {
  for (const Coding& coding : codings) {
    const std::string packed = coding.pack("some items\nfor a test\n");
    for (std::size_t length = 1; length < packed.size(); ++length) {
      const auto unpacked = unpack(coding.open, packed.substr(0, length), 1000, 100);
      REQUIRE(unpacked.error);
      CHECK(unpacked.error->code == Errc::damaged);
    }
  }
}

TEST_CASE("damaged compressed data and bytes after the end are refused") {
  for (const Coding& coding : codings) {
    const std::string packed = coding.pack(sample_text());
    std::string changed = packed;
    changed[packed.size() / 2] ^= 1;
    changed[packed.size() / 2 + 1] ^= 1;
    const auto damaged = unpack(coding.open, changed, 1 << 16, 1 << 16);
    // gzip's checksum finds changed bytes. zstd has a checksum only on request.
    if (coding.open == gzip_source) CHECK(damaged.error);
    const auto behind = unpack(coding.open, packed + "no compressed data", 1 << 16, 1 << 16);
    REQUIRE(behind.error);
    CHECK(behind.error->code == Errc::damaged);
  }
}

}  // namespace decompressor_test
