"""The Lua scripts of a state in Redis, each of which runs atomically.

Every script takes two keys: the prefix of all names (p), and the prefix of the names of one
deployment (d). Numbers are passed as text with all digits, because Redis truncates numeric replies
to integers, and Lua prints only fourteen digits.
"""

from __future__ import annotations

_HEAD = """
local p, d = KEYS[1], KEYS[2]

local function text(number) return string.format('%.17g', number) end

local function clock(given)
  if given ~= '' then return tonumber(given) end
  local time = redis.call('TIME')
  return tonumber(time[1]) + tonumber(time[2]) / 1000000
end

local function add(key, field, amount)
  if amount == 0 then return end
  local sum = tonumber(redis.call('HGET', key, field) or '0') + amount
  redis.call('HSET', key, field, text(math.max(0, sum)))
end

-- What an attempt has bought of a source for a request: the attempt, and in how many calls.
local function bought(claim, source)
  local found = redis.call('HGET', claim, 'bought:' .. source)
  if not found then return nil, 0 end
  local attempt, calls = string.match(found, '^(%d+) (%d+)$')
  return attempt, tonumber(calls)
end

local function buy(claim, source, attempt, calls)
  redis.call('HSET', claim, 'bought:' .. source, attempt .. ' ' .. string.format('%d', calls))
end

-- A call may cost something (`has`) where before it might not, or the other way round (`had`).
local function count(deployment, request, source, attempt, had, has)
  local claim = p .. 'of:' .. deployment .. ':id:' .. request
  local by, calls = bought(claim, source)
  if by ~= attempt then return end
  if had and not has and calls > 0 then buy(claim, source, attempt, calls - 1) end
  if has and not had then buy(claim, source, attempt, calls + 1) end
end
"""


def _script(text: str) -> str:
    return _HEAD + text


# The version of the layout, set if there is none.
VERSION = _script("""
if ARGV[2] == '1' then redis.call('SET', p .. 'version', ARGV[1], 'NX') end
return redis.call('GET', p .. 'version')
""")

# A request's id is a hash: body, attempt, until, answer, and what was bought.
CLAIM = _script("""
local key, now, lease = d .. 'id:' .. ARGV[1], clock(ARGV[3]), tonumber(ARGV[4])
local found = redis.call('HMGET', key, 'body', 'attempt', 'until', 'answer')
local attempt = 1
if found[1] then
  if found[1] ~= ARGV[2] then return {'other'} end
  if found[4] then return {'done', found[4]} end
  if tonumber(found[3]) > now then return {'running'} end
  attempt = tonumber(found[2]) + 1
end
local count = string.format('%d', attempt)
redis.call('HSET', key, 'body', ARGV[2], 'attempt', count, 'until', text(now + lease))
redis.call('EXPIRE', key, ARGV[5])
return {'claimed', count}
""")

RENEW = _script("""
local key = d .. 'id:' .. ARGV[1]
local found = redis.call('HMGET', key, 'attempt', 'answer')
if found[1] ~= ARGV[2] or found[2] then return 0 end
redis.call('HSET', key, 'until', text(clock(ARGV[3]) + tonumber(ARGV[4])))
return 1
""")

ANSWER = _script("""
local key = d .. 'id:' .. ARGV[1]
local found = redis.call('HMGET', key, 'body', 'answer')
if not found[1] then return nil end
if found[2] then return {found[2]} end
redis.call('HSET', key, 'answer', ARGV[2])
redis.call('EXPIRE', key, ARGV[3])
return {}
""")

DROP = _script("""
local key = d .. 'id:' .. ARGV[1]
local found = redis.call('HGETALL', key)
local kept = {}
for i = 1, #found, 2 do kept[found[i]] = found[i + 1] end
if kept.attempt ~= ARGV[2] or kept.answer then return end
for field, value in pairs(kept) do
  if string.sub(field, 1, 7) == 'bought:' and not string.match(value, ' 0$') then
    redis.call('HSET', key, 'until', '0')
    return
  end
end
redis.call('DEL', key)
""")

# An intent without an outcome is a field of `open`: day, rows, price, time, attempt, and as JSON
# the request, the account and the deployment. An account is a source and a tenant, as JSON too.
# `spent:` and the day holds what is paid (p) and unknown (u) by account, and both (c) by source,
# for limits. Nothing is granted if the state lacks the expected incarnation.
BEGIN = _script("""
local id, now, rows, price = ARGV[1], clock(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local source, account, request, attempt, whose = ARGV[6], ARGV[7], ARGV[8], ARGV[9], ARGV[10]
if ARGV[11] ~= '' and redis.call('HGET', p .. 'kept:' .. ARGV[12], 'text') ~= ARGV[11] then
  return {'lost'}
end
local claim, claimed = d .. 'id:' .. request, false
if request ~= '' then
  claimed = redis.call('HGET', claim, 'attempt')
  if claimed and claimed ~= attempt then return {} end
  local by, calls = bought(claim, source)
  if calls > 0 and by ~= attempt then return {} end
end
local day = string.format('%d', math.floor(now / 86400))
local spent = p .. 'spent:' .. day
if ARGV[5] ~= '' and price > 0 then
  local counted = tonumber(redis.call('HGET', spent, 'c' .. source) or '0')
  local room = math.floor((tonumber(ARGV[5]) - counted) / price + 1e-6)
  rows = math.max(0, math.min(rows, room))
end
if rows == 0 then return {'0'} end
local granted = string.format('%d', rows)
redis.call('HSET', p .. 'open', id, table.concat(
  {day, granted, text(price), text(now), attempt, whose}, ' '))
redis.call('SADD', p .. 'days', day)
add(spent, 'c' .. source, price * rows)
add(spent, 'u' .. account, price * rows)
if claimed then
  local by, calls = bought(claim, source)
  buy(claim, source, attempt, (by == attempt and calls or 0) + 1)
end
return {granted}
""")

# A call counted as unknown may be answered late: it is kept for some time as `late:` and its id.
END = _script("""
local id, paid, unknown, source = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), ARGV[4]
local late = p .. 'late:' .. id
local begun = redis.call('HGET', p .. 'open', id)
local had_paid, had_unknown, had = 0, nil, true
if not begun then
  local kept = redis.call('HMGET', late, 'begun', 'paid', 'unknown')
  begun = kept[1]
  if not begun then return end
  had_paid, had_unknown = tonumber(kept[2]), tonumber(kept[3])
  had = had_paid + had_unknown > 0
end
local day, granted, price, _, attempt, whose = string.match(
  begun, '^(%S+) (%S+) (%S+) (%S+) (%S+) (.*)$')
local request, account, deployment = unpack(cjson.decode(whose))
if not had_unknown then had_unknown = tonumber(price) * tonumber(granted) end
local spent = p .. 'spent:' .. day
add(spent, 'p' .. account, paid - had_paid)
add(spent, 'u' .. account, unknown - had_unknown)
add(spent, 'c' .. source, paid + unknown - had_paid - had_unknown)
redis.call('HDEL', p .. 'open', id)
if unknown > 0 then
  redis.call('HSET', late, 'begun', begun, 'paid', text(paid), 'unknown', text(unknown))
  redis.call('EXPIRE', late, ARGV[5])
else
  redis.call('DEL', late)
end
count(deployment, request, source, attempt, had, paid + unknown > 0)
""")

# Settles the unknown charges of a source on a day: a share of them was charged. Calls without an
# outcome are kept as `late:` as well, so that an answer that arrives later counts in full.
SETTLE = _script("""
local source, day, charged = ARGV[1], ARGV[2], tonumber(ARGV[3])
local spent, unknown, accounts = p .. 'spent:' .. day, 0, {}
local totals = redis.call('HGETALL', spent)
for i = 1, #totals, 2 do
  local account = string.sub(totals[i], 2)
  if string.sub(totals[i], 1, 1) == 'u' and cjson.decode(account)[1] == source then
    accounts[account] = tonumber(totals[i + 1])
    unknown = unknown + accounts[account]
  end
end
if not (charged >= 0 and charged <= unknown + 1e-6) then return {text(unknown), '0'} end
local share = unknown > 0 and math.min(1, charged / unknown) or 0
for account, amount in pairs(accounts) do
  add(spent, 'p' .. account, amount * share)
  redis.call('HSET', spent, 'u' .. account, '0')
end
add(spent, 'c' .. source, -unknown * (1 - share))

local function settle(id, begun, paid, amount)
  local of, granted, price, _, attempt, whose = string.match(
    begun, '^(%S+) (%S+) (%S+) (%S+) (%S+) (.*)$')
  local request, account, deployment = unpack(cjson.decode(whose))
  if of ~= day or cjson.decode(account)[1] ~= source then return false end
  amount = amount or tonumber(price) * tonumber(granted)
  local now = paid + amount * share
  redis.call('HSET', p .. 'late:' .. id, 'begun', begun, 'paid', text(now), 'unknown', '0')
  count(deployment, request, source, attempt, true, now > 0)
  return true
end

local begun = redis.call('HGETALL', p .. 'open')
for i = 1, #begun, 2 do
  if settle(begun[i], begun[i + 1], 0, nil) then
    redis.call('HDEL', p .. 'open', begun[i])
    redis.call('EXPIRE', p .. 'late:' .. begun[i], ARGV[4])
  end
end
for i = 5, #ARGV do
  local kept = redis.call('HMGET', p .. 'late:' .. ARGV[i], 'begun', 'paid', 'unknown')
  if kept[1] and tonumber(kept[3]) > 0 then
    settle(ARGV[i], kept[1], tonumber(kept[2]), tonumber(kept[3]))
  end
end
return {text(unknown), '1'}
""")

# A small value is a hash: text and version.
KEEP = _script("""
local key = p .. 'kept:' .. ARGV[1]
local version = redis.call('HGET', key, 'version') or '0'
if ARGV[3] ~= '' and ARGV[3] ~= version then return 0 end
redis.call('HSET', key, 'text', ARGV[2])
redis.call('HINCRBY', key, 'version', 1)
return 1
""")

# Marked decisions are fields of `marks`, their labels of `truths`, their times in `marked`; the
# label of an unmarked decision waits as `label:` and its id.
MARK = _script("""
for i = 1, #ARGV, 3 do
  local id, early = ARGV[i], d .. 'label:' .. ARGV[i]
  redis.call('HSET', d .. 'marks', id, ARGV[i + 2])
  redis.call('ZADD', d .. 'marked', ARGV[i + 1], id)
  local label = redis.call('GET', early)
  if label then
    redis.call('HSETNX', d .. 'truths', id, label)
    redis.call('DEL', early)
  end
end
""")

LABEL = _script("""
local id, label = ARGV[1], ARGV[2]
if redis.call('HEXISTS', d .. 'marks', id) == 1 then
  if redis.call('HGET', d .. 'truths', id) == label then return 0 end
  redis.call('HSET', d .. 'truths', id, label)
  return 1
end
local key = d .. 'label:' .. id
local had = redis.call('GET', key)
redis.call('SET', key, label, 'EX', ARGV[3])
return had == label and 0 or 1
""")

FORGET = _script("""
local ids = redis.call('ZRANGEBYSCORE', d .. 'marked', '-inf', '(' .. ARGV[1], 'LIMIT', 0, 1000)
for _, id in ipairs(ids) do
  redis.call('HDEL', d .. 'marks', id)
  redis.call('HDEL', d .. 'truths', id)
  redis.call('ZREM', d .. 'marked', id)
end
return #ids
""")

# The period of spot checks is a hash, and its checks under way are another: `take_turn` of
# check_period.py, step by step. It writes as much for any coin, so that no coin decides whether a
# write fails.
TURN = _script("""
local now, steps = clock(ARGV[1]), cjson.decode(ARGV[2])
if ARGV[3] ~= '' and redis.call('HGET', p .. 'kept:' .. ARGV[4], 'text') ~= ARGV[3] then
  return {'lost'}
end
local new = {incarnation = ARGV[5], settings = ARGV[7], per_rows = ARGV[8], per_seconds = ARGV[9],
  tolerated = ARGV[10], rate = ARGV[11]}
local info = redis.pcall('INFO', 'server')
new.server = type(info) == 'string' and string.match(info, 'run_id:(%w+)') or ''
local per_rows, per_seconds = tonumber(new.per_rows), tonumber(new.per_seconds)
local key, checks = d .. 'period', d .. 'under_way'
local found, period = redis.call('HGETALL', key), nil
if #found > 0 then
  period = {}
  for i = 1, #found, 2 do period[found[i]] = found[i + 1] end
end
local counts = {'known', 'cheap', 'checked', 'final', 'finished', 'arrived', 'number'}
local n, under_way = {}, redis.call('HLEN', checks)
for _, name in ipairs(counts) do n[name] = period and tonumber(period[name]) or 0 end

local function rows() return n.cheap + n.checked + n.final end

local function begin(number, closed)
  redis.call('DEL', checks)
  under_way, period = 0, {begun = text(now), closed = closed}
  for name, value in pairs(new) do period[name] = value end
  for _, name in ipairs(counts) do n[name] = 0 end
  n.number = number
end

local by_clock = per_seconds > 0 and math.floor(now / per_seconds) or 0
local function begin_closed(why)
  local number = n.number + 1
  if per_seconds > 0 then
    local is_ahead = tonumber(period.per_seconds) == per_seconds and number == by_clock + 2
    if is_ahead then number = n.number else number = by_clock end
  end
  begin(number, why)
end

local function find_period()
  if not period then return begin(by_clock, ARGV[6]) end
  if period.server ~= new.server or period.incarnation ~= new.incarnation then
    return begin_closed('store restarted')
  end
  if tonumber(period.per_rows) ~= per_rows or tonumber(period.per_seconds) ~= per_seconds then
    return begin_closed('settings changed')
  end
  if per_rows > 0 then
    if rows() >= per_rows then return begin(n.number + 1, '') end
  elseif by_clock > n.number then return begin(by_clock, '') end
  if period.settings ~= new.settings and period.closed == '' then
    period.closed = 'settings changed'
  end
end

local function admit(id, coin)
  if period.closed ~= '' or n.known + under_way > tonumber(period.tolerated) then
    n.final = n.final + 1
    return 'final'
  end
  if tonumber(coin) < tonumber(period.rate) then
    redis.call('HSET', checks, id, string.format('%d', rows()))
    n.checked, under_way = n.checked + 1, under_way + 1
    return 'check'
  end
  n.cheap = n.cheap + 1
  return 'cheap'
end

local function finish(id, agrees)
  local before = redis.call('HGET', checks, id)
  if not before then return end
  redis.call('HDEL', checks, id)
  under_way = under_way - 1
  n.finished, n.arrived = n.finished + 1, n.arrived + rows() - tonumber(before)
  if not agrees then n.known = n.known + 1 end
end

local admitted = {}
for _, step in ipairs(steps) do
  if #step == 2 then
    find_period()
    admitted[#admitted + 1] = admit(step[1], step[2])
  elseif period then
    finish(step[1], step[2] == 1)
  end
end
if not period then return {'none'} end
for _, name in ipairs(counts) do period[name] = string.format('%d', n[name]) end
if #steps > 0 then
  local fields = {}
  for name, value in pairs(period) do
    fields[#fields + 1] = name
    fields[#fields + 1] = value
  end
  redis.call('HSET', key, unpack(fields))
end
return {'ok', admitted, redis.call('HGETALL', key), redis.call('HGETALL', checks)}
""")

ALL = (
    VERSION, CLAIM, RENEW, ANSWER, DROP, BEGIN, END, SETTLE, KEEP, MARK, LABEL, FORGET, TURN,
)  # fmt: skip
