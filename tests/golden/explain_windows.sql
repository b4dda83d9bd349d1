CREATE STREAM trades (ts TIMESTAMP, symbol STRING, price DOUBLE, volume INT, number BIGINT, settled DATE)
USING csv OPTIONS (path 'trades') TIMESTAMP BY ts;
CREATE STREAM quiet (ts TIMESTAMP, x INT) USING csv OPTIONS (path 'quiet') TIMESTAMP BY ts;
CREATE QUERY by_rows AS SELECT sum(volume) AS total, avg(volume) AS mean FROM trades [ROWS 1000 SLIDE 100];
CREATE QUERY by_time AS SELECT max(price) AS top, median(price) AS middle FROM trades [RANGE '1 h' SLIDE '1 min'];
CREATE QUERY at_tuples AS SELECT count(*) AS n FROM trades [RANGE '10 s' SLIDE 5 TUPLES];
CREATE QUERY continuous AS SELECT min(price) AS low FROM trades [RANGE '30 s'];
CREATE QUERY so_far AS SELECT symbol, max(price) AS top FROM trades [RANGE UNBOUNDED SLIDE '1 min'] GROUP BY symbol;
CREATE QUERY of_the_year AS SELECT count(DISTINCT symbol) AS n
FROM trades [FROM TIMESTAMP '2024-01-01 00:00:00' SLIDE '1 h'];
CREATE QUERY numbered AS SELECT last(price) AS latest FROM trades [RANGE 50 SLIDE 20 WATTR number];
CREATE QUERY settling AS SELECT stddev_pop(price) AS spread FROM trades [RANGE '7 d' SLIDE '1 d' WATTR settled];
CREATE QUERY lately AS SELECT symbol, avg(price) AS mean
FROM trades [PARTITION BY symbol ROWS 10 SLIDE 50] GROUP BY symbol;
CREATE QUERY few AS SELECT sum(x) AS s FROM quiet [ROWS 10];
