#include "tools/build/list_source.hpp"

#include "support/catch.hpp"
#include "support/memory_source.hpp"

namespace list_source_test {

using namespace sepal;
using namespace sepal::tools;
using namespace std::string_literals;
using test::MemorySource;

namespace {

Result<ListSource> open(const std::string& bytes, ItemFormat format = ItemFormat::lines) {
  // A pipe may give one byte at a time.
  return list_source(std::make_unique<MemorySource>(bytes, [] { return std::size_t{1}; }), format);
}

std::string rest_of(Result<ListSource> list) {
  REQUIRE(list);
  std::string text;
  std::string piece(7, '\0');
  for (;;) {
    const auto count = list->bytes->read(piece);
    REQUIRE(count);
    if (*count == 0) return text;
    text += piece.substr(0, *count);
  }
}

}  // namespace

TEST_CASE("formats that are not read are refused by name") {
  const std::pair<std::string, const char*> wrong[] = {{"\xfd\x37\x7a\x58\x5a\0"s, "xz"},
                                                       {"BZh91AY&SY", "bzip2"},
                                                       {"BZh1\x17\x72\x45\x38\x50\x90"s, "bzip2"},
                                                       {"PK\3\4", "zip"},
                                                       {"PK\5\6", "zip"},
                                                       {"7z\xbc\xaf\x27\x1c", "7z"},
                                                       {"\x04\x22\x4d\x18", "lz4"},
                                                       {"\x02\x21\x4c\x18", "lz4"},
                                                       {"LZIP\1", "lzip"},
                                                       {"\x89LZO\0\x0d\x0a\x1a\x0a"s, "lzop"},
                                                       {"Rar!\x1a\7", "rar"},
                                                       {"\xff\6\0\0sNaPpY"s, "snappy"},
                                                       {"\x1f\x9d\x90", "compress"},
                                                       {std::string(257, 'x') + "ustar", "tar"}};
  for (const auto& [begin, name] : wrong) {
    CAPTURE(name);
    for (const ItemFormat format : {ItemFormat::lines, ItemFormat::nul, ItemFormat::length_prefixed}) {
      const auto list = open(begin + "and more", format);
      REQUIRE_FALSE(list);
      CHECK(list.error().code == Errc::out_of_range);
      CHECK(list.error().detail.starts_with("is of the format "s + name + ","));
    }
    // One byte less is a line of text.
    CHECK(open(begin.substr(0, begin.size() - 1)));
  }
  CHECK(open("SEPALFLT and so on").error().detail == "is a filter file of Sepal, not a list of items");
}

TEST_CASE("texts of other encodings are refused where lines are expected") {
  const std::pair<std::string, const char*> wrong[] = {{"\xff\xfe\0\0"s, "UTF-32"},
                                                       {"\0\0\xfe\xff"s, "UTF-32"},
                                                       {"\xff\xfe"
                                                        "a\0"s,
                                                        "UTF-16"},
                                                       {"\xfe\xff\0a"s, "UTF-16"}};
  for (const auto& [begin, name] : wrong) {
    CHECK(open(begin).error().detail.starts_with("is "s + name + " text"));
    CHECK(open(begin, ItemFormat::crlf).error().detail.starts_with("is "s + name + " text"));
    CHECK(open(begin, ItemFormat::nul));
    CHECK(open(begin, ItemFormat::length_prefixed));
  }
}

TEST_CASE("the byte order mark of UTF-8 is no part of the first item") {
  const std::string mark = "\xef\xbb\xbf";
  CHECK(rest_of(open(mark + "a\n" + mark)) == "a\n" + mark);
  CHECK(rest_of(open(mark + "a", ItemFormat::nul)) == "a");
  CHECK(rest_of(open(mark)).empty());
  CHECK(rest_of(open(mark.substr(0, 2))) == mark.substr(0, 2));
  CHECK(rest_of(open(mark + "\0a"s, ItemFormat::length_prefixed)) == mark + "\0a"s);
}

TEST_CASE("a list may be longer or shorter than the bytes that tell its format") {
  for (const std::size_t length : {0, 1, 3, 4, 511, 512, 513, 2000}) {
    std::string text;
    for (std::size_t i = 0; i < length; ++i) text += static_cast<char>('a' + i % 26);
    CHECK(rest_of(open(text)) == text);
  }
}

TEST_CASE("an error of the input comes behind the bytes before it") {
  auto file = std::make_unique<MemorySource>(
      "abc", [] { return std::size_t{2}; }, fail(Errc::io, "the disk is gone"));
  const auto list = list_source(std::move(file), ItemFormat::lines);
  REQUIRE(list);
  std::string piece(10, '\0');
  CHECK(*list->bytes->read(piece) == 3);
  CHECK(list->bytes->read(piece).error().detail == "the disk is gone");
}

}  // namespace list_source_test
