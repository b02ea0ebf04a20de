#include <string>
#include <utility>
#include <zstd.h>

#include "tools/build/decompressor.hpp"

namespace sepal::tools {
namespace {

class ZstdSource final : public ByteSource {
 public:
  explicit ZstdSource(std::unique_ptr<ByteSource> compressed)
      : compressed_(std::move(compressed)),
        stream_(ZSTD_createDStream()),
        input_(std::make_unique_for_overwrite<char[]>(ZSTD_DStreamInSize())) {}

  Result<std::size_t> read(std::span<char> into) override {
    // The constructor cannot return an error, so the first read does.
    if (stream_ == nullptr) return fail(Errc::out_of_memory, "there is no memory for zstd");
    ZSTD_outBuffer output{.dst = into.data(), .size = into.size(), .pos = 0};
    // A call may take input without any output. To return 0 bytes would mean the end.
    while (output.pos == 0) {
      // The library may still hold output for input that it has consumed. That output needs no more input.
      const bool exhausted = available_.pos == available_.size;
      if (exhausted && !more_inside_) {
        const auto count = compressed_->read({input_.get(), ZSTD_DStreamInSize()});
        if (!count) return count.error();
        available_ = {.src = input_.get(), .size = *count, .pos = 0};
        if (*count == 0 && !within_frame_) return std::size_t{0};
        if (*count == 0) return fail(Errc::damaged, "the zstd data ends too early");
      }
      const std::size_t outcome = ZSTD_decompressStream(stream_.get(), &output, &available_);
      if (ZSTD_isError(outcome) != 0)
        return fail(Errc::damaged, std::string("the zstd data is damaged: ") + ZSTD_getErrorName(outcome));
      // 0: a frame is whole, and all of its output is out. If there is no room for output left, the library
      // may have more of it.
      within_frame_ = outcome != 0;
      more_inside_ = within_frame_ && output.pos == output.size;
    }
    return output.pos;
  }

  [[nodiscard]] std::uint64_t position() const override { return compressed_->position(); }

 private:
  struct Free {
    void operator()(ZSTD_DStream* stream) const { ZSTD_freeDStream(stream); }
  };

  std::unique_ptr<ByteSource> compressed_;
  std::unique_ptr<ZSTD_DStream, Free> stream_;
  std::unique_ptr<char[]> input_;
  ZSTD_inBuffer available_{.src = nullptr, .size = 0, .pos = 0};
  bool within_frame_ = false;
  bool more_inside_ = false;
};

}  // namespace

std::unique_ptr<ByteSource> zstd_source(std::unique_ptr<ByteSource> compressed) {
  return std::make_unique<ZstdSource>(std::move(compressed));
}

}  // namespace sepal::tools
