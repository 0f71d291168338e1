// The canonical print: appends to one string, one pass over the Fusion.
#include "ir/text/printer.h"

#include <charconv>
#include <cmath>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "ir/scalar.h"
#include "ir/text/parser_impl.h"

namespace seam {
namespace {

// Digits that tell any two values of the dtype apart.
// Source: IEEE 754-2008, 5.12.2: 1 + ceil(p * log10(2)) for a significand of p bits.
int EnoughDigits(DType dtype) {
  return 1 + static_cast<int>(std::ceil(SignificandBits(dtype) * 0.30102999566398120));
}

class Printer {
 public:
  explicit Printer(const Fusion& fusion) : fusion_(fusion) {}

  std::string Run() {
    ChooseNames();
    absl::StrAppend(&text_, "fusion ", FusionName(), " {\n");
    PrintSymbols();
    for (ValId v : fusion_.inputs()) PrintInput(v);
    for (uint32_t i = 0; i < fusion_.num_exprs(); ++i) PrintExpr(ExprId(i));
    for (ValId v : fusion_.outputs()) {
      absl::StrAppend(&text_, "  output ", Name(v));
      if (!fusion_.is_input(v)) PrintStrides(v);
      text_ += '\n';
    }
    text_ += "}\n";
    return std::move(text_);
  }

 private:
  absl::string_view Name(ValId v) const {
    auto it = renamed_.find(v);
    return it == renamed_.end() ? fusion_.name(v) : absl::string_view(it->second);
  }

  // Reserved words give way to the first free name with underscores behind them.
  void ChooseNames() {
    for (uint32_t i = 0; i < fusion_.num_vals(); ++i) {
      if (text::IsReservedWord(fusion_.name(ValId(i)))) renamed_[ValId(i)] = "";
    }
    if (renamed_.empty()) return;
    absl::flat_hash_set<absl::string_view> taken;
    for (uint32_t i = 0; i < fusion_.num_vals(); ++i) taken.insert(fusion_.name(ValId(i)));
    for (auto& [v, name] : renamed_) {
      name = std::string(fusion_.name(v));
      do name += '_';
      while (taken.contains(name));
    }
  }

  std::string FusionName() const {
    std::string name(fusion_.name());
    for (char& c : name) c = text::IsNameChar(c) ? c : '_';
    if (name.empty() || !text::IsNameStart(name[0])) name = "_" + name;
    return name;
  }

  // The symbols that something in the Fusion mentions, in the order of their making.
  void PrintSymbols() {
    absl::flat_hash_set<const SymNode*> seen, used;
    auto add = [&](absl::Span<const SymInt> extents) {
      for (SymInt extent : extents) {
        if (!extent.is_symbolic() || !seen.insert(extent.node()).second) continue;
        for (const SymNode* symbol : FreeSymbols(extent)) used.insert(symbol);
      }
    };
    for (uint32_t i = 0; i < fusion_.num_vals(); ++i) {
      for (const IterDomain& axis : fusion_.domain(ValId(i))) add({axis.extent});
      if (fusion_.has_explicit_strides(ValId(i))) add(fusion_.strides(ValId(i)));
    }
    for (uint32_t i = 0; i < fusion_.num_exprs(); ++i) {
      const Attributes& attributes = fusion_.attributes(ExprId(i));
      for (const SymVector* extents :
           {&attributes.sizes, &attributes.start, &attributes.stop, &attributes.step}) {
        add(*extents);
      }
    }
    if (used.empty()) return;
    for (const SymNode* symbol : fusion_.env().symbols()) {
      if (!used.contains(symbol)) continue;
      absl::StrAppend(&text_, "  symbol ", symbol->name, " in [", symbol->range.lo, ", ",
                      symbol->range.hi, "]\n");
    }
  }

  void PrintExtent(SymInt extent) {
    if (std::optional<int64_t> value = extent.maybe_int()) {
      absl::StrAppend(&text_, *value);
    } else {
      text_ += extent.ToString();
    }
  }

  void PrintExtents(absl::Span<const SymInt> extents) {
    text_ += '[';
    for (size_t i = 0; i < extents.size(); ++i) {
      if (i > 0) text_ += ", ";
      PrintExtent(extents[i]);
    }
    text_ += ']';
  }

  void PrintTyped(ValId v) {
    absl::StrAppend(&text_, Name(v), ": ", DTypeName(fusion_.dtype(v)), "[");
    bool is_first = true;
    for (const IterDomain& axis : fusion_.domain(v)) {
      if (!is_first) text_ += ", ";
      is_first = false;
      PrintExtent(axis.extent);
    }
    text_ += ']';
  }

  void PrintStrides(ValId v) {
    if (!fusion_.has_explicit_strides(v)) return;
    text_ += " strides ";
    PrintExtents(fusion_.strides(v));
  }

  void PrintInput(ValId v) {
    text_ += "  input ";
    PrintTyped(v);
    PrintStrides(v);
    text_ += '\n';
  }

  void PrintLiteral(const Attributes& attributes, DType dtype) {
    if (IsFloat(dtype)) {
      text_ += PrintFloat(attributes.value, dtype);
    } else if (dtype == DType::Bool) {
      text_ += attributes.int_value != 0 ? "true" : "false";
    } else {
      absl::StrAppend(&text_, attributes.int_value);
    }
  }

  void Separate() {
    if (text_.back() != '(') text_ += ", ";
  }

  void PrintExpr(ExprId e) {
    text_ += "  ";
    for (int i = 0; i < fusion_.num_results(e); ++i) {
      if (i > 0) text_ += ", ";
      PrintTyped(fusion_.result(e, i));
    }
    const OpKind op = fusion_.op(e);
    absl::StrAppend(&text_, " = ", fusion_.info(e).name, "(");
    for (ValId operand : fusion_.operands(e)) {
      Separate();
      text_.append(Name(operand).data(), Name(operand).size());
    }
    const Attributes& attributes = fusion_.attributes(e);
    if (op == OpKind::Constant) PrintLiteral(attributes, attributes.dtype);
    for (const text::AttributeName& name : text::AttributeNames(op)) {
      Separate();
      absl::StrAppend(&text_, name.name, "=");
      switch (name.field) {
        case kAttrAxes:
          PrintAxes(attributes.axes);
          break;
        case kAttrSizes:
          PrintExtents(attributes.sizes);
          break;
        case kAttrStart:
          PrintExtents(attributes.start);
          break;
        case kAttrStop:
          PrintExtents(attributes.stop);
          break;
        case kAttrStep:
          PrintExtents(attributes.step);
          break;
        case kAttrValue:
          PrintLiteral(attributes, fusion_.dtype(fusion_.result(e)));
          break;
        case kAttrDType:
          absl::StrAppend(&text_, DTypeName(attributes.dtype));
          break;
      }
    }
    text_ += ")\n";
  }

  void PrintAxes(const AxisVector& axes) {
    text_ += '[';
    for (size_t i = 0; i < axes.size(); ++i) absl::StrAppend(&text_, i > 0 ? ", " : "", axes[i]);
    text_ += ']';
  }

  const Fusion& fusion_;
  absl::flat_hash_map<ValId, std::string> renamed_;
  std::string text_;
};

}  // namespace

std::string PrintFusion(const Fusion& fusion) { return Printer(fusion).Run(); }

std::string PrintFloat(double value, DType dtype) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  char buffer[32];
  char* const limit = buffer + sizeof(buffer);
  const auto reads_back = [&](double read) { return RoundOnce(dtype, read) == value; };
  // Integers as they are; of other values the shortest that rounds to them. (The shortest for f32
  // may, on its way through f64, miss.)
  double shortest = value;
  if (std::trunc(value) == value && std::fabs(value) < 1e9) {
    // Exact.
  } else if (dtype == DType::F32) {
    char* const end = std::to_chars(buffer, limit, static_cast<float>(value)).ptr;
    double read = value;
    std::from_chars(buffer, end, read);
    if (reads_back(read)) shortest = read;
  } else if (dtype != DType::F64) {
    for (int digits = 1; digits <= EnoughDigits(dtype) && shortest == value; ++digits) {
      char* const end = std::to_chars(buffer, limit, value, std::chars_format::general, digits).ptr;
      double read = value;
      std::from_chars(buffer, end, read);
      if (reads_back(read)) shortest = read;
    }
  }
  char* const end = std::to_chars(buffer, limit, shortest).ptr;
  std::string literal(buffer, end);
  if (literal.find_first_of(".e") == std::string::npos) literal += ".0";
  return literal;
}

}  // namespace seam
