//! Format specs as Python's f-strings have them: `[[fill]align][sign][#][0][width][,][.precision][type]`.

use starlark::values::{UnpackValue, Value, float::StarlarkFloat};

use crate::values::unpack_integer;

/// The largest width of a format, in characters.
const MAX_WIDTH: usize = 1000;

/// The largest precision: digits after the point.
const MAX_PRECISION: usize = 100;

/// A parsed format spec.
struct FormatSpec {
    fill: char,
    align: Option<char>,
    sign: char,
    alternate: bool,
    width: usize,
    grouping: Option<char>,
    precision: Option<usize>,
    type_char: Option<char>,
}

/// A number without its sign.
struct Magnitude {
    negative: bool,
    prefix: &'static str,
    digits: String,
}

/// Formats a value by a format spec.
pub(crate) fn format_value(value: Value<'_>, spec: &str) -> Result<String, String> {
    let parsed = FormatSpec::parse(spec)?;
    let is_number = value.get_type() == "int" || value.get_type() == "float";
    let is_text = matches!(parsed.type_char, None | Some('s')) && !(is_number && parsed.type_char.is_none());
    if is_text {
        return Ok(parsed.format_text(&value.to_str()));
    }
    if !is_number {
        return Err(format!("the format {spec:?} is for numbers, not for {}", value.get_type()));
    }
    let magnitude = parsed.format_number(value).map_err(|why| format!("the format {spec:?} {why}"))?;
    Ok(parsed.with_sign(&magnitude))
}

impl FormatSpec {
    fn parse(text: &str) -> Result<Self, String> {
        let mut rest = text.chars().peekable();
        let (mut fill, mut align) = (' ', None);
        let is_align = |character: char| "<>^=".contains(character);
        let mut chars = text.chars();
        let (first, second) = (chars.next(), chars.next());
        if let (Some(fill_char), Some(align_char)) = (first, second)
            && is_align(align_char)
        {
            (fill, align) = (fill_char, Some(align_char));
            rest.nth(1);
        } else if let Some(align_char) = first.filter(|first| is_align(*first)) {
            align = Some(align_char);
            rest.next();
        }
        let sign = rest.next_if(|next| "+- ".contains(*next)).unwrap_or('-');
        let alternate = rest.next_if_eq(&'#').is_some();
        if rest.next_if_eq(&'0').is_some() && align.is_none() {
            (fill, align) = ('0', Some('='));
        }
        let parse_number = |rest: &mut std::iter::Peekable<std::str::Chars<'_>>, max: usize| {
            let mut number: Option<usize> = None;
            while let Some(digit) = rest.peek().and_then(|next| next.to_digit(10)) {
                rest.next();
                number = Some(number.unwrap_or(0).saturating_mul(10).saturating_add(digit as usize));
            }
            match number {
                Some(number) if number > max => Err(format!("the format {text:?} asks for more than {max} characters")),
                number => Ok(number),
            }
        };
        let width = parse_number(&mut rest, MAX_WIDTH)?.unwrap_or(0);
        let grouping = rest.next_if(|next| ",_".contains(*next));
        let precision = match rest.next_if_eq(&'.') {
            None => None,
            Some(_) => Some(
                parse_number(&mut rest, MAX_PRECISION)?
                    .ok_or_else(|| format!("the format {text:?} has no digits after its point"))?,
            ),
        };
        let kind = rest.next();
        let is_known = kind.is_none_or(|kind| "sdnbxXoeEfFgG%".contains(kind));
        if !is_known || rest.next().is_some() {
            return Err(format!(
                "the format {text:?} is not one of Python's: [[fill]align][sign][#][0][width][,][.precision][type]"
            ));
        }
        Ok(Self { fill, align, sign, alternate, width, grouping, precision, type_char: kind })
    }

    fn format_text(&self, text: &str) -> String {
        let text: String = match self.precision {
            Some(precision) => text.chars().take(precision).collect(),
            None => text.to_owned(),
        };
        self.pad("", &text, self.align.unwrap_or('<'))
    }

    /// Formats a number's magnitude as the type requires.
    fn format_number(&self, value: Value<'_>) -> Result<Magnitude, String> {
        let is_int = value.get_type() == "int";
        match self.type_char {
            Some('d' | 'n') | None if is_int && self.precision.is_none() => {
                let digits = value.to_str();
                let negative = digits.starts_with('-');
                let digits = self.group_digits(digits.trim_start_matches('-'), "", 3);
                Ok(Magnitude { negative, prefix: "", digits })
            }
            Some('d') => Err(format!("is for an int, not for a {}", value.get_type())),
            Some(radix @ ('b' | 'o' | 'x' | 'X')) => self.format_radix(value, radix),
            kind => {
                let number = match StarlarkFloat::unpack_value_opt(value) {
                    Some(float) => float.0,
                    None => value.to_str().parse().map_err(|_| "is for a number".to_owned())?,
                };
                Ok(self.format_float(number, kind, &value.to_str()))
            }
        }
    }

    fn format_radix(&self, value: Value<'_>, radix: char) -> Result<Magnitude, String> {
        let Some(integer) = unpack_integer::<i64>(value) else {
            return Err(format!("is for an int of at most 64 bits, not for {}", value.get_type()));
        };
        let magnitude = integer.unsigned_abs();
        let (prefix, digits) = match radix {
            'b' => ("0b", format!("{magnitude:b}")),
            'o' => ("0o", format!("{magnitude:o}")),
            'x' => ("0x", format!("{magnitude:x}")),
            _ => ("0X", format!("{magnitude:X}")),
        };
        let prefix = if self.alternate { prefix } else { "" };
        Ok(Magnitude { negative: integer < 0, prefix, digits: self.group_digits(&digits, "", 4) })
    }

    fn format_float(&self, number: f64, kind: Option<char>, plain: &str) -> Magnitude {
        let negative = number.is_sign_negative() && !number.is_nan();
        let number = number.abs();
        let precision = self.precision.unwrap_or(6);
        let mut digits = if !number.is_finite() {
            if number.is_nan() { "nan".to_owned() } else { "inf".to_owned() }
        } else {
            match kind {
                Some('e' | 'E') => format_scientific(number, precision),
                Some('f' | 'F') => format!("{number:.precision$}"),
                Some('%') => format!("{:.precision$}%", number * 100.0),
                None if self.precision.is_none() => plain.trim_start_matches('-').to_owned(),
                _ => format_general(number, precision.max(1)),
            }
        };
        if kind.is_some_and(|kind| kind.is_ascii_uppercase()) {
            digits.make_ascii_uppercase();
        }
        let point = digits.find(|character: char| !character.is_ascii_digit()).unwrap_or(digits.len());
        let (whole, rest) = digits.split_at(point);
        Magnitude { negative, prefix: "", digits: self.group_digits(whole, rest, 3) }
    }

    fn group_digits(&self, whole: &str, rest: &str, size: usize) -> String {
        let Some(separator) = self.grouping else { return format!("{whole}{rest}") };
        let mut grouped = String::new();
        for (index, digit) in whole.chars().enumerate() {
            if index > 0 && (whole.len() - index).is_multiple_of(size) {
                grouped.push(separator);
            }
            grouped.push(digit);
        }
        grouped + rest
    }

    fn with_sign(&self, magnitude: &Magnitude) -> String {
        let sign = match (magnitude.negative, self.sign) {
            (true, _) => "-",
            (false, '+') => "+",
            (false, ' ') => " ",
            (false, _) => "",
        };
        self.pad(&format!("{sign}{}", magnitude.prefix), &magnitude.digits, self.align.unwrap_or('>'))
    }

    /// Pads to the width; `=` pads between the sign and the digits.
    fn pad(&self, sign: &str, text: &str, align: char) -> String {
        let missing = self.width.saturating_sub(sign.chars().count() + text.chars().count());
        let fill = |count: usize| self.fill.to_string().repeat(count);
        match align {
            '<' => format!("{sign}{text}{}", fill(missing)),
            '^' => format!("{}{sign}{text}{}", fill(missing / 2), fill(missing - missing / 2)),
            '=' => format!("{sign}{}{text}", fill(missing)),
            _ => format!("{}{sign}{text}", fill(missing)),
        }
    }
}

/// Formats with an exponent of at least two digits and its sign, as Python does.
fn format_scientific(number: f64, precision: usize) -> String {
    let formatted = format!("{number:.precision$e}");
    match formatted.split_once('e') {
        Some((mantissa, exponent)) => append_exponent(mantissa, exponent.parse().unwrap_or(0)),
        None => formatted,
    }
}

fn append_exponent(mantissa: &str, exponent: i32) -> String {
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{mantissa}e{sign}{:02}", exponent.unsigned_abs())
}

/// Formats with so many significant digits, without trailing zeros.
fn format_general(number: f64, digits: usize) -> String {
    let formatted = format!("{number:.*e}", digits - 1);
    let Some((mantissa, exponent)) = formatted.split_once('e') else { return formatted };
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let trim_zeros = |text: &str| match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text.to_owned(),
    };
    match usize::try_from(i64::try_from(digits).unwrap_or(i64::MAX) - 1 - i64::from(exponent)) {
        Ok(after_point) if exponent >= -4 => trim_zeros(&format!("{number:.after_point$}")),
        _ => append_exponent(&trim_zeros(mantissa), exponent),
    }
}
