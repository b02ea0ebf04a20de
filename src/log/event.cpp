#include <sepal/log/event.hpp>
#include <sepal/metrics/json.hpp>

#include <spdlog/spdlog.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <cstdio>

namespace sepal::log {
namespace {

// Relaxed: it is set before other threads log.
std::atomic<Format> format_of_lines{Format::text};

spdlog::level::level_enum level_of(Level level) {
  switch (level) {
    case Level::debug: return spdlog::level::debug;
    case Level::info: return spdlog::level::info;
    case Level::warn: return spdlog::level::warn;
    case Level::error: break;
  }
  return spdlog::level::err;
}

bool is_control(char letter) {
  return static_cast<unsigned char>(letter) < 0x20 || letter == 0x7f;
}

// Bytes of clients, and of files, must not look like another line, or steer a terminal.
void append_escaped(std::string& to, std::string_view bytes) {
  constexpr std::string_view digits = "0123456789abcdef";
  for (const char letter : bytes) {
    const auto byte = static_cast<unsigned char>(letter);
    if (is_control(letter)) {
      to.append("\\x").append(1, digits[byte >> 4]).append(1, digits[byte & 15]);
    } else {
      to += letter;
    }
  }
}

// A value stands in quotes unless it is one word.
void append_value(std::string& to, std::string_view bytes) {
  const bool is_word = !bytes.empty() && std::ranges::none_of(bytes, [](char letter) {
    return is_control(letter) || letter == ' ' || letter == '"' || letter == '=' || letter == '\\';
  });
  if (is_word) {
    to += bytes;
    return;
  }
  to += '"';
  for (const char letter : bytes) {
    // A reader of the line can take the quotes apart again.
    if (letter == '"' || letter == '\\') to += '\\';
    append_escaped(to, {&letter, 1});
  }
  to += '"';
}

std::string real_text(double value, int digits) {
  std::array<char, 400> text{};  // the greatest double has 309 digits before its point
  const int length = std::snprintf(text.data(), text.size(), "%.*f", digits, value);
  return {text.data(), static_cast<std::size_t>(std::clamp(length, 0, static_cast<int>(text.size()) - 1))};
}

std::string text_body(std::string_view message, Fields fields) {
  std::string text;
  append_escaped(text, message);
  const char* before = ": ";
  for (const Field& field : fields) {
    text.append(before).append(field.name()).append("=");
    before = " ";
    if (const auto* const bytes = std::get_if<std::string_view>(&field.value())) append_value(text, *bytes);
    if (const auto* const number = std::get_if<std::uint64_t>(&field.value()))
      text += std::to_string(*number);
    if (const auto* const real = std::get_if<double>(&field.value()))
      text += real_text(*real, field.digits());
    if (const auto* const truth = std::get_if<bool>(&field.value())) text += *truth ? "true" : "false";
  }
  return text;
}

std::string json_body(std::string_view event, std::string_view message, Fields fields) {
  metrics::JsonWriter writer;
  writer.begin_object().name("event").text(event).name("message").text(message);
  for (const Field& field : fields) {
    writer.name(field.name());
    if (const auto* const bytes = std::get_if<std::string_view>(&field.value())) writer.text(*bytes);
    if (const auto* const number = std::get_if<std::uint64_t>(&field.value())) writer.number(*number);
    if (const auto* const truth = std::get_if<bool>(&field.value())) writer.truth(*truth);
    if (const auto* const real = std::get_if<double>(&field.value())) {
      // Rounded, so that JSON has the digits that the text has.
      const double scale = std::pow(10, field.digits());
      writer.number(std::round(*real * scale) / scale);
    }
  }
  // Without the opening brace: the logger's pattern writes it, with time and level.
  return std::move(writer.end_object()).finish().substr(1);
}

}  // namespace

std::string body_of(Format format, std::string_view event, std::string_view message, Fields fields) {
  return format == Format::json ? json_body(event, message, fields) : text_body(message, fields);
}

void write(Level level, std::string_view event, std::string_view message, Fields fields) {
  // Before the text is made: a line that is not written costs one comparison.
  if (!is_on(level)) return;
  const Format format = format_of_lines.load(std::memory_order_relaxed);
  // The text goes in as a string and not as a format: braces in a client's bytes mean nothing. The raw
  // pointer costs no count; the logger is set before other threads log, and stays.
  spdlog::default_logger_raw()->log(level_of(level), body_of(format, event, message, fields));
}

bool is_on(Level level) {
  return spdlog::should_log(level_of(level));
}

void set_format(Format format) {
  format_of_lines.store(format, std::memory_order_relaxed);
}

}  // namespace sepal::log
