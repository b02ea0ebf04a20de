#include "command/run/monitor_text.hpp"

#include <chrono>

#include "command/users/secrets.hpp"

namespace sepal::command {
namespace {

// As the reference writes bytes between double quotes. The line is a simple string of RESP, so a line end in
// a word must not come through: the rest of the word would be read as further replies.
void append_escaped(std::string& text, std::string_view bytes) {
  constexpr std::string_view hex_digits = "0123456789abcdef";
  constexpr std::string_view escaped = "\\\"\n\r\t\a\b";
  constexpr std::string_view letters = "\\\"nrtab";
  for (const char byte : bytes) {
    if (const std::size_t at = escaped.find(byte); at != std::string_view::npos) {
      text.push_back('\\');
      text.push_back(letters[at]);
    } else if (byte >= ' ' && byte <= '~') {
      text.push_back(byte);
    } else {
      const auto value = static_cast<unsigned char>(byte);
      text.append("\\x").append(1, hex_digits[value / 16]).append(1, hex_digits[value % 16]);
    }
  }
}

void append_time(std::string& text, WallTime now) {
  const auto since_1970 = now.time_since_epoch();
  const auto whole_seconds = std::chrono::duration_cast<std::chrono::seconds>(since_1970);
  const auto microseconds = std::chrono::duration_cast<std::chrono::microseconds>(since_1970 - whole_seconds);
  std::string fraction = std::to_string(microseconds.count());
  constexpr std::size_t digits = 6;
  fraction.insert(0, digits - fraction.size(), '0');
  text.append(std::to_string(whole_seconds.count())).append(".").append(fraction);
}

// The path of a UNIX socket is the address of its clients, with a port of 0 behind it.
void append_address(std::string& text, std::string_view address) {
  if (address.starts_with('/')) {
    text.append("unix:");
    address = address.substr(0, address.rfind(':'));
  }
  text.append(address);
}

}  // namespace

void append_monitor_line(std::string& lines, WallTime now, const ClientState& client,
                         std::span<const std::string_view> words) {
  const Secrets secrets(words);
  const std::size_t begin = lines.size();
  lines.push_back('+');
  append_time(lines, now);
  lines.append(" [").append(std::to_string(client.database)).append(" ");
  append_address(lines, client.address);
  lines.append("]");
  // The line is looked at before each word, so the last word may lead beyond the bound.
  std::size_t at = 0;
  for (; at < words.size() && lines.size() - begin < monitor_line_bytes_max; ++at) {
    const std::string_view word = secrets.shown(at);
    lines.append(" \"");
    append_escaped(lines, word.substr(0, monitor_word_bytes_max));
    if (word.size() > monitor_word_bytes_max)
      lines.append("... (" + std::to_string(word.size() - monitor_word_bytes_max) + " more bytes)");
    lines.append("\"");
  }
  if (at < words.size()) lines.append(" \"... (" + std::to_string(words.size() - at) + " more arguments)\"");
  lines.append("\r\n");
}

}  // namespace sepal::command
