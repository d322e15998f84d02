//! Format specs as Python's f-strings have them: `[[fill]align][sign][#][0][width][,][.precision][type]`.

use starlark::values::{UnpackValue, Value, float::StarlarkFloat};

use crate::values::integer;

/// The widest result that is filled up to, in characters.
const MAX_WIDTH: usize = 1000;

/// The most digits after the point.
const MOST_DIGITS: usize = 100;

/// A spec, taken apart.
struct FormatSpec {
    fill: char,
    align: Option<char>,
    sign: char,
    alternate: bool,
    width: usize,
    grouping: Option<char>,
    precision: Option<usize>,
    kind: Option<char>,
}

/// A number without its sign.
struct Magnitude {
    negative: bool,
    prefix: &'static str,
    digits: String,
}

/// The text of a value in a format.
pub(crate) fn format(value: Value<'_>, spec: &str) -> Result<String, String> {
    let parsed = FormatSpec::parse(spec)?;
    let is_number = value.get_type() == "int" || value.get_type() == "float";
    let is_text = matches!(parsed.kind, None | Some('s')) && !(is_number && parsed.kind.is_none());
    if is_text {
        return Ok(parsed.text(&value.to_str()));
    }
    if !is_number {
        return Err(format!("the format {spec:?} is for numbers, not for {}", value.get_type()));
    }
    let magnitude = parsed.number(value).map_err(|why| format!("the format {spec:?} {why}"))?;
    Ok(parsed.signed(&magnitude))
}

impl FormatSpec {
    fn parse(text: &str) -> Result<Self, String> {
        let mut rest = text.chars().peekable();
        let (mut fill, mut align) = (' ', None);
        let is_align = |character: char| "<>^=".contains(character);
        let mut ahead = text.chars();
        let (first, second) = (ahead.next(), ahead.next());
        if let (Some(filling), Some(aligned)) = (first, second)
            && is_align(aligned)
        {
            (fill, align) = (filling, Some(aligned));
            rest.nth(1);
        } else if let Some(aligned) = first.filter(|first| is_align(*first)) {
            align = Some(aligned);
            rest.next();
        }
        let sign = rest.next_if(|next| "+- ".contains(*next)).unwrap_or('-');
        let alternate = rest.next_if_eq(&'#').is_some();
        if rest.next_if_eq(&'0').is_some() && align.is_none() {
            (fill, align) = ('0', Some('='));
        }
        let number = |rest: &mut std::iter::Peekable<std::str::Chars<'_>>, most: usize| {
            let mut number: Option<usize> = None;
            while let Some(digit) = rest.peek().and_then(|next| next.to_digit(10)) {
                rest.next();
                number = Some(number.unwrap_or(0).saturating_mul(10).saturating_add(digit as usize));
            }
            match number {
                Some(number) if number > most => {
                    Err(format!("the format {text:?} asks for more than {most} characters"))
                }
                number => Ok(number),
            }
        };
        let width = number(&mut rest, MAX_WIDTH)?.unwrap_or(0);
        let grouping = rest.next_if(|next| ",_".contains(*next));
        let precision = match rest.next_if_eq(&'.') {
            None => None,
            Some(_) => Some(
                number(&mut rest, MOST_DIGITS)?
                    .ok_or_else(|| format!("the format {text:?} has no digits after its point"))?,
            ),
        };
        let kind = rest.next();
        let known = kind.is_none_or(|kind| "sdnbxXoeEfFgG%".contains(kind));
        if !known || rest.next().is_some() {
            return Err(format!(
                "the format {text:?} is not one of Python's: [[fill]align][sign][#][0][width][,][.precision][type]"
            ));
        }
        Ok(Self { fill, align, sign, alternate, width, grouping, precision, kind })
    }

    fn text(&self, text: &str) -> String {
        let text: String = match self.precision {
            Some(precision) => text.chars().take(precision).collect(),
            None => text.to_owned(),
        };
        self.filled("", &text, self.align.unwrap_or('<'))
    }

    /// The number without its sign, in the digits that the type asks for.
    fn number(&self, value: Value<'_>) -> Result<Magnitude, String> {
        let is_int = value.get_type() == "int";
        match self.kind {
            Some('d' | 'n') | None if is_int && self.precision.is_none() => {
                let digits = value.to_str();
                let negative = digits.starts_with('-');
                let digits = self.grouped(digits.trim_start_matches('-'), "", 3);
                Ok(Magnitude { negative, prefix: "", digits })
            }
            Some('d') => Err(format!("is for an int, not for a {}", value.get_type())),
            Some(radix @ ('b' | 'o' | 'x' | 'X')) => self.in_radix(value, radix),
            kind => {
                let number = match StarlarkFloat::unpack_value_opt(value) {
                    Some(float) => float.0,
                    None => value.to_str().parse().map_err(|_| "is for a number".to_owned())?,
                };
                Ok(self.float(number, kind, &value.to_str()))
            }
        }
    }

    fn in_radix(&self, value: Value<'_>, radix: char) -> Result<Magnitude, String> {
        let Some(integer) = integer::<i64>(value) else {
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
        Ok(Magnitude { negative: integer < 0, prefix, digits: self.grouped(&digits, "", 4) })
    }

    fn float(&self, number: f64, kind: Option<char>, plain: &str) -> Magnitude {
        let negative = number.is_sign_negative() && !number.is_nan();
        let number = number.abs();
        let precision = self.precision.unwrap_or(6);
        let mut digits = if !number.is_finite() {
            if number.is_nan() { "nan".to_owned() } else { "inf".to_owned() }
        } else {
            match kind {
                Some('e' | 'E') => scientific(number, precision),
                Some('f' | 'F') => format!("{number:.precision$}"),
                Some('%') => format!("{:.precision$}%", number * 100.0),
                None if self.precision.is_none() => plain.trim_start_matches('-').to_owned(),
                _ => general(number, precision.max(1)),
            }
        };
        if kind.is_some_and(|kind| kind.is_ascii_uppercase()) {
            digits.make_ascii_uppercase();
        }
        let point = digits.find(|character: char| !character.is_ascii_digit()).unwrap_or(digits.len());
        let (whole, rest) = digits.split_at(point);
        Magnitude { negative, prefix: "", digits: self.grouped(whole, rest, 3) }
    }

    fn grouped(&self, whole: &str, rest: &str, size: usize) -> String {
        let Some(separator) = self.grouping else { return format!("{whole}{rest}") };
        let mut grouped = String::new();
        for (at, digit) in whole.chars().enumerate() {
            if at > 0 && (whole.len() - at).is_multiple_of(size) {
                grouped.push(separator);
            }
            grouped.push(digit);
        }
        grouped + rest
    }

    fn signed(&self, magnitude: &Magnitude) -> String {
        let sign = match (magnitude.negative, self.sign) {
            (true, _) => "-",
            (false, '+') => "+",
            (false, ' ') => " ",
            (false, _) => "",
        };
        self.filled(&format!("{sign}{}", magnitude.prefix), &magnitude.digits, self.align.unwrap_or('>'))
    }

    /// Filled up to the width; `=` fills between the sign and the digits.
    fn filled(&self, sign: &str, text: &str, align: char) -> String {
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

/// With an exponent of at least two digits and its sign, as Python writes it.
fn scientific(number: f64, precision: usize) -> String {
    let written = format!("{number:.precision$e}");
    match written.split_once('e') {
        Some((mantissa, exponent)) => with_exponent(mantissa, exponent.parse().unwrap_or(0)),
        None => written,
    }
}

fn with_exponent(mantissa: &str, exponent: i32) -> String {
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{mantissa}e{sign}{:02}", exponent.unsigned_abs())
}

/// With so many significant digits, none of them a zero at the end.
fn general(number: f64, digits: usize) -> String {
    let written = format!("{number:.*e}", digits - 1);
    let Some((mantissa, exponent)) = written.split_once('e') else { return written };
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let shortened = |text: &str| match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text.to_owned(),
    };
    match usize::try_from(i64::try_from(digits).unwrap_or(i64::MAX) - 1 - i64::from(exponent)) {
        Ok(after_point) if exponent >= -4 => shortened(&format!("{number:.after_point$}")),
        _ => with_exponent(&shortened(mantissa), exponent),
    }
}
