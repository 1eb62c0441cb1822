BEGIN TRANSACTION;
CREATE TABLE alembic_version (
	version_num VARCHAR(32) NOT NULL, 
	CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num)
);
INSERT INTO "alembic_version" VALUES('0001');
CREATE TABLE artifacts (
	sha256 VARCHAR(64) NOT NULL, 
	size BIGINT NOT NULL, 
	created FLOAT NOT NULL, 
	PRIMARY KEY (sha256)
);
CREATE TABLE attempts (
	job VARCHAR(32) NOT NULL, 
	number INTEGER NOT NULL, 
	board VARCHAR(200) NOT NULL, 
	worker VARCHAR(200) NOT NULL, 
	started FLOAT NOT NULL, 
	ended FLOAT, 
	ending VARCHAR(16), 
	verdict VARCHAR(16), 
	why TEXT NOT NULL, 
	seconds FLOAT NOT NULL, 
	PRIMARY KEY (job, number), 
	FOREIGN KEY(job) REFERENCES jobs (id)
);
INSERT INTO "attempts" VALUES('22222222222222222222222222222222',1,'desk','',3.0,4.0,'finished','PASSED','',1.0);
CREATE TABLE audit (
	number INTEGER NOT NULL, 
	time FLOAT NOT NULL, 
	token VARCHAR(200) NOT NULL, 
	project VARCHAR(32), 
	action VARCHAR(64) NOT NULL, 
	content JSON NOT NULL, 
	request VARCHAR(64) NOT NULL, 
	PRIMARY KEY (number)
);
CREATE TABLE baselines (
	project VARCHAR(32) NOT NULL, 
	suite VARCHAR(200) NOT NULL, 
	job VARCHAR(500) NOT NULL, 
	verdict VARCHAR(16) NOT NULL, 
	blame_side VARCHAR(32) NOT NULL, 
	nodes JSON NOT NULL, 
	report VARCHAR(64) NOT NULL, 
	taken FLOAT NOT NULL, 
	PRIMARY KEY (project, suite, job), 
	FOREIGN KEY(project) REFERENCES projects (id)
);
CREATE TABLE boards (
	name VARCHAR(200) NOT NULL, 
	host VARCHAR(200) NOT NULL, 
	tags JSON NOT NULL, 
	state VARCHAR(16) NOT NULL, 
	drained BOOLEAN NOT NULL, 
	reason TEXT NOT NULL, 
	since FLOAT NOT NULL, 
	inconclusive INTEGER NOT NULL, 
	checks INTEGER NOT NULL, 
	next_check FLOAT, 
	job VARCHAR(32), 
	last_verdict VARCHAR(16), 
	last_job VARCHAR(32), 
	facts JSON NOT NULL, 
	PRIMARY KEY (name)
);
INSERT INTO "boards" VALUES('desk','','{"soc": "j5"}','free',0,'',1.0,0,0,NULL,NULL,NULL,NULL,'{}');
CREATE TABLE events (
	number INTEGER NOT NULL, 
	time FLOAT NOT NULL, 
	project VARCHAR(32), 
	run VARCHAR(32), 
	kind VARCHAR(16) NOT NULL, 
	content JSON NOT NULL, 
	PRIMARY KEY (number)
);
CREATE TABLE jobs (
	id VARCHAR(32) NOT NULL, 
	run VARCHAR(32) NOT NULL, 
	number INTEGER NOT NULL, 
	name VARCHAR(500) NOT NULL, 
	model VARCHAR(200) NOT NULL, 
	wanted JSON NOT NULL, 
	settings JSON NOT NULL, 
	state VARCHAR(16) NOT NULL, 
	attempt INTEGER NOT NULL, 
	retries_left INTEGER NOT NULL, 
	lost INTEGER NOT NULL, 
	board VARCHAR(200), 
	verdict VARCHAR(16), 
	why TEXT NOT NULL, 
	blame_side VARCHAR(32) NOT NULL, 
	blame_node TEXT NOT NULL, 
	nodes JSON NOT NULL, 
	report VARCHAR(64) NOT NULL, 
	capture VARCHAR(64) NOT NULL, 
	facts JSON NOT NULL, 
	started FLOAT, 
	ended FLOAT, 
	board_seconds FLOAT NOT NULL, 
	PRIMARY KEY (id), 
	FOREIGN KEY(run) REFERENCES suite_runs (id), 
	UNIQUE (run, number)
);
INSERT INTO "jobs" VALUES('22222222222222222222222222222222','11111111111111111111111111111111',0,'digits on desk','digits','["desk"]','{}','done',1,0,0,'desk','PASSED','','','','[]','','','{}',3.0,4.0,0.5);
CREATE TABLE project_artifacts (
	project VARCHAR(32) NOT NULL, 
	sha256 VARCHAR(64) NOT NULL, 
	name VARCHAR(500) NOT NULL, 
	kind VARCHAR(16) NOT NULL, 
	used FLOAT NOT NULL, 
	PRIMARY KEY (project, sha256), 
	FOREIGN KEY(project) REFERENCES projects (id), 
	FOREIGN KEY(sha256) REFERENCES artifacts (sha256)
);
CREATE TABLE projects (
	id VARCHAR(32) NOT NULL, 
	name VARCHAR(200) NOT NULL, 
	created FLOAT NOT NULL, 
	quota_bytes BIGINT NOT NULL, 
	quota_jobs INTEGER NOT NULL, 
	keep_days FLOAT NOT NULL, 
	PRIMARY KEY (id), 
	UNIQUE (name)
);
INSERT INTO "projects" VALUES('00000000000000000000000000000000','default',1.0,53687091200,100000,90.0);
CREATE TABLE suite_runs (
	id VARCHAR(32) NOT NULL, 
	project VARCHAR(32) NOT NULL, 
	name VARCHAR(200) NOT NULL, 
	submitter VARCHAR(200) NOT NULL, 
	kind VARCHAR(16) NOT NULL, 
	definition JSON NOT NULL, 
	labels JSON NOT NULL, 
	state VARCHAR(16) NOT NULL, 
	verdict VARCHAR(16), 
	priority INTEGER NOT NULL, 
	created FLOAT NOT NULL, 
	started FLOAT, 
	ended FLOAT, 
	why TEXT NOT NULL, 
	qverify VARCHAR(40) NOT NULL, 
	PRIMARY KEY (id), 
	FOREIGN KEY(project) REFERENCES projects (id)
);
INSERT INTO "suite_runs" VALUES('11111111111111111111111111111111','00000000000000000000000000000000','nightly','ann','suite','{"name": "nightly"}','{}','done','PASSED',0,2.0,3.0,4.0,'','0.1.0');
CREATE TABLE tokens (
	id VARCHAR(32) NOT NULL, 
	name VARCHAR(200) NOT NULL, 
	hash VARCHAR(64) NOT NULL, 
	role VARCHAR(16) NOT NULL, 
	project VARCHAR(32), 
	created FLOAT NOT NULL, 
	expires FLOAT, 
	revoked FLOAT, 
	last_used FLOAT, 
	PRIMARY KEY (id), 
	FOREIGN KEY(project) REFERENCES projects (id), 
	UNIQUE (hash)
);
CREATE TABLE webhooks (
	id VARCHAR(32) NOT NULL, 
	project VARCHAR(32) NOT NULL, 
	url TEXT NOT NULL, 
	secret VARCHAR(128) NOT NULL, 
	suite VARCHAR(200) NOT NULL, 
	created FLOAT NOT NULL, 
	last_status TEXT NOT NULL, 
	PRIMARY KEY (id), 
	FOREIGN KEY(project) REFERENCES projects (id)
);
CREATE INDEX ix_events_project ON events (project);
CREATE INDEX ix_events_run ON events (run);
CREATE INDEX ix_suite_runs_created ON suite_runs (created);
CREATE INDEX ix_suite_runs_name ON suite_runs (name);
CREATE INDEX ix_suite_runs_project ON suite_runs (project);
CREATE INDEX ix_suite_runs_state ON suite_runs (state);
CREATE INDEX jobs_by_history ON jobs (name, board, ended);
CREATE INDEX jobs_by_state ON jobs (state, run);
CREATE INDEX ix_attempts_board ON attempts (board);
COMMIT;
