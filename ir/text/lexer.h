// Tokens of the text form, read one at a time.
//
// Newlines end a statement and are tokens, except inside ( ) and [ ], where they are spaces. A
// comment runs from # to the end of the line and may hold any UTF-8; everything else is ASCII. CR
// LF is a newline. Invariants: after an error every token is kEnd, so that loops over tokens end by
// themselves. Thread-safety: none; one lexer belongs to one thread.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "ir/text/diagnostic.h"

namespace seam::text {

enum class TokenKind : uint8_t {
  kEnd,
  kNewline,
  kName,     // [A-Za-z_][A-Za-z0-9_.]*
  kInteger,  // Decimal digits, or 0x and hexadecimal ones.
  kFloat,    // Digits with a point, an exponent, or both.
  kPunctuation,
};

struct Token {
  TokenKind kind = TokenKind::kEnd;
  absl::string_view text;  // Part of the source; empty at the end.
  size_t offset = 0;
  SourceLoc location;

  bool Is(absl::string_view punctuation) const {
    return kind == TokenKind::kPunctuation && text == punctuation;
  }
  bool IsName(absl::string_view name) const { return kind == TokenKind::kName && text == name; }
};

// "'x'", "end of line", "end of file", "number 5": what an error says was found.
std::string Describe(const Token& token);

constexpr bool IsNameStart(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}
constexpr bool IsNameChar(char c) { return IsNameStart(c) || (c >= '0' && c <= '9') || c == '.'; }

class Lexer {
 public:
  explicit Lexer(const TextSource& source);

  Token Next();
  const absl::Status& status() const { return status_; }
  void Fail(size_t offset, absl::string_view message);  // Keeps the first error.

 private:
  bool SkipSpace();
  void SkipComment();
  Token Number();
  Token Make(TokenKind kind, size_t end);

  TextSource source_;
  absl::Status status_;
  size_t position_ = 0;
  size_t line_begin_ = 0;
  int32_t line_ = 1;
  int brackets_ = 0;  // Open ( and [.
};

}  // namespace seam::text
